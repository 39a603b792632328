/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the Chunks service with a carrier that queues jobs until the test runs them. Linker
 * wrappers report the release of a transfer, and a chunk that is about to be fed (--wrap, see
 * BUILD). */

#include "plugin/service/chunks/chunk_service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/server/quota/quotas.h"
#include "tests/plugin/chunks/chunk_fixture.h"
#include "tests/plugin/frame/wire_bytes.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace {

std::function<void ()> on_unref, on_feed; /* called once */

void
call_once (std::function<void ()> &func)
{
  if (auto taken = std::exchange (func, nullptr))
    taken ();
}

} // namespace

extern "C"
{
  void __real_tps_transfer_unref (TpsTransfer *transfer);
  void __wrap_tps_transfer_unref (TpsTransfer *transfer);

  void
  __wrap_tps_transfer_unref (TpsTransfer *transfer)
  {
    call_once (on_unref);
    __real_tps_transfer_unref (transfer);
  }

  gboolean __real_tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);
  gboolean __wrap_tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

  gboolean
  __wrap_tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error)
  {
    call_once (on_feed);
    return __real_tps_transfer_feed (transfer, chunk, error);
  }
}

namespace thriftps {
namespace {

gint64
get_now_ns ()
{
  return 1;
}

/* The reply to one call. It may still be pending. */
struct Answer
{
  class ChunkService *fixture;
  bool has_come = false;
  Scan scan;
};

class ChunkService : public testing::Test
{
protected:
  explicit ChunkService (gint64 idle_ns = 0)
  {
    TpsChunksOptions options = {};
    TpsService service;

    workers = tps_worker_pool_new ("timers", 1);
    budgets.transfers = tps_budget_new (nullptr, "transfers", 16 << 20);
    options.workers = workers;
    options.budgets = &budgets;
    options.idle_ns = idle_ns;
    chunks = tps_chunks_new (&options);
    set_services ({ "Service" });
    service = tps_chunk_service (chunks);
    dispatcher = tps_dispatcher_new (&service, 1, nullptr, nullptr);
  }

  ~ChunkService () override
  {
    EXPECT_TRUE (jobs.empty ());
    tps_dispatcher_unref (dispatcher);
    tps_chunks_free (chunks);
    tps_worker_pool_free (workers);
    EXPECT_EQ (tps_budget_get_held (budgets.transfers), 0u);
    tps_budget_unref (budgets.transfers);
  }

  /* Sets services of these names. Each has a method that runs on a worker. */
  void
  set_services (const std::vector<const char *> &names)
  {
    static const TpsRpc rpcs[] = {
      { "Any", "method", nullptr, nullptr },
    };
    static const TpsMethod methods[] = {
      { TPS_RIGHT_PUSH, &rpcs[0], count_call, TPS_METHOD_ON_WORKER },
      {},
    };
    std::vector<TpsService> services;

    for (const char *name : names)
      services.push_back ({ 0, name, methods, this, nullptr, nullptr, nullptr, FALSE, nullptr });
    ASSERT_TRUE (tps_chunks_set_services (chunks, services.data (),
                                          static_cast<guint> (services.size ()), nullptr, nullptr));
  }

  Answer &
  call (const char *method, void (*encode) (TpsWriter *, gconstpointer), gconstpointer arguments)
  {
    static const TpsCarrierOps ops = [] {
      TpsCarrierOps all = {};
      all.may_wait = may_wait;
      all.run_on_worker = run_on_worker;
      all.finish = finish;
      all.throttle = throttle;
      return all;
    }();
    g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
    Scan scan;

    tps_writer_message_begin (out, method, TPS_MESSAGE_CALL, 1);
    tps_writer_struct_begin (out);
    encode (out, arguments);
    tps_writer_struct_end (out);
    EXPECT_TRUE (tps_writer_message_end (out, nullptr));
    scan = scan_bytes (join_pieces (out));
    answers.emplace_back ();
    answers.back ().fixture = this;
    const TpsCaller caller = { nullptr, tenant };
    tps_dispatcher_handle (dispatcher, scan.messages.at (0), &caller, nullptr, &ops,
                           &answers.back ());
    scan.messages.clear ();
    return answers.back ();
  }

  void
  run_jobs ()
  {
    while (!jobs.empty ())
      {
        auto job = jobs.front ();

        jobs.pop_front ();
        job ();
      }
  }

  /* Returns true if there is a reply and it is not a ServiceError. */
  static bool
  is_fine (Answer &answer)
  {
    TpsWireType type;
    TpsReader in;
    gint16 id;

    if (!answer.has_come)
      return false;
    tps_reader_init (&in, answer.scan.messages.at (0));
    return !tps_reader_field (&in, &id, &type) || id == 0;
  }

  /* ---- the methods -------------------------------------------------------------------------- */

  Answer &
  begin (const char *name, gsize n_bytes, gint32 count)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name), static_cast<gint64> (n_bytes),
                                       count, 0 };

    return call ("begin_transfer", WriteArgumentsOf<tps_begin_transfer_rpc>, &arguments);
  }

  Answer &
  put (const char *name, gint32 index, gint32 count, const std::string &data)
  {
    struct iovec piece = { const_cast<char *> (data.data ()), data.size () };
    guint32 crc = tps_crc32c (0, data.data (), data.size ());
    TpsChunk chunk = {
      const_cast<gchar *> (name), index, count, static_cast<gint32> (crc), { nullptr, &piece, 1 }
    };

    return call ("put_chunk", WriteArgumentsOf<tps_put_chunk_rpc>, &chunk);
  }

  Answer &
  run (const char *name)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name), 0, 0, 0 };

    return call ("run_transfer", WriteArgumentsOf<tps_run_transfer_rpc>, &arguments);
  }

  Answer &
  end (const char *name)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name), 0, 0, 0 };

    return call ("end_transfer", WriteArgumentsOf<tps_end_transfer_rpc>, &arguments);
  }

  /* Sends a complete transfer. */
  void
  send (const char *name, const std::string &argument)
  {
    std::string bytes = message_bytes (argument);

    ASSERT_TRUE (is_fine (begin (name, bytes.size (), 1)));
    Answer &answer = put (name, 0, 1, bytes);
    run_jobs ();
    ASSERT_TRUE (is_fine (answer));
  }

  TpsChunks *chunks;
  TpsWorkerPool *workers;
  std::deque<std::function<void ()>> jobs;
  int n_calls = 0;
  std::string reply; /* the reply of "method"; empty = void */
  TpsBudgets budgets = {};
  TpsTenant *tenant = nullptr; /* the tenant of all callers */
  guint64 n_rows = 0;          /* the number of rows of a call of "method" */
  std::vector<gint> pauses_ms; /* the pauses of the connection */

private:
  static void
  throttle (gpointer carried, gint wait_ms)
  {
    auto answer = static_cast<Answer *> (carried);

    EXPECT_FALSE (answer->has_come);
    answer->fixture->pauses_ms.push_back (wait_ms);
  }

  static gboolean
  may_wait (gpointer)
  {
    return TRUE;
  }

  static void
  run_on_worker (gpointer carried, TpsLane, TpsJobFunc func, TpsJobFunc, gpointer user_data)
  {
    static_cast<Answer *> (carried)->fixture->jobs.push_back ([=] { func (user_data); });
  }

  static void
  finish (gpointer carried, TpsWriter *reply)
  {
    auto answer = static_cast<Answer *> (carried);

    EXPECT_FALSE (answer->has_come);
    answer->scan = scan_bytes (join_pieces (reply));
    answer->has_come = true;
    tps_writer_free (reply);
  }

  static void
  count_call (TpsCall *call, gpointer service)
  {
    ChunkService *self = static_cast<ChunkService *> (service);
    g_autoptr (GError) error = nullptr;

    self->n_calls++;
    if (!tps_call_add_rows (call, self->n_rows, &error))
      tps_call_reply_error (call, error);
    else if (self->reply.empty ())
      tps_call_reply (call, nullptr, nullptr);
    else
      tps_call_reply (call, write_string, &self->reply);
  }

  static void
  write_string (TpsWriter *out, gconstpointer text)
  {
    tps_writer_field (out, 0, TPS_WIRE_BINARY);
    tps_writer_string (out, static_cast<const std::string *> (text)->c_str ());
  }

  TpsDispatcher *dispatcher;
  std::deque<Answer> answers;
};

class ChunkServiceWithoutPatience : public ChunkService
{
protected:
  ChunkServiceWithoutPatience () : ChunkService (1)
  {
  }
};

/* Only the release of memory may queue behind other work. Deadlines must not. */
TEST_F (ChunkServiceWithoutPatience, transfersExpireWhileAllWorkersAreBusy)
{
  std::promise<void> end_work;
  std::promise<void> has_begun;
  auto work = [&] {
    has_begun.set_value ();
    end_work.get_future ().wait ();
  };
  std::function<void ()> func = work;

  tps_worker_pool_submit (
      workers, [] (gpointer data) { (*static_cast<std::function<void ()> *> (data)) (); }, &func);
  has_begun.get_future ().wait ();
  ASSERT_TRUE (is_fine (begin ("t", 10, 1)));
  while (tps_chunks_get_n_transfers (chunks) > 0)
    std::this_thread::yield ();
  end_work.set_value ();
}

/* The client may start the transfer again. If the last chunk were acknowledged instead, the client
 * would try to run a transfer that no longer exists. */
TEST_F (ChunkService, aChunkThatWaitsForAWorkerWhenItsTransferIsForgottenIsRefused)
{
  std::string bytes = message_bytes ("abc");

  ASSERT_TRUE (is_fine (begin ("t", bytes.size (), 1)));
  Answer &answer = put ("t", 0, 1, bytes);
  end ("t");
  run_jobs ();
  ASSERT_TRUE (answer.has_come);
  EXPECT_FALSE (is_fine (answer));
}

TEST_F (ChunkService, aBadChunkDoesNotEndALaterTransferOfTheSameName)
{
  begin ("a", 100, 1);
  on_feed = [this] {
    end ("a");
    EXPECT_TRUE (is_fine (begin ("a", 200, 1)));
  };
  Answer &chunk = put ("a", 0, 1, std::string (100, 'x'));
  run_jobs ();
  EXPECT_FALSE (is_fine (chunk));
  EXPECT_EQ (tps_chunks_get_n_transfers (chunks), 1u) << "the later one";
}

TEST_F (ChunkService, aCallThatWaitsForAWorkerReachesItsServiceWhenOthersAreAdded)
{
  send ("t", "abc");
  Answer &answer = run ("t");
  ASSERT_EQ (jobs.size (), 1u);
  set_services ({ "Service", "Another" });
  run_jobs ();
  EXPECT_TRUE (is_fine (answer));
  EXPECT_EQ (n_calls, 1);
}

/* A transfer may hold many gigabytes, which take long to release. */
TEST_F (ChunkService, endedTransfersAreFreedOnAWorkerWhileOthersContinue)
{
  std::future<bool> other;
  bool is_freed = false, goes_on = false;

  send ("t", "abc");
  on_unref = [&] {
    is_freed = true;
    other = std::async (std::launch::async, [&] { return is_fine (begin ("other", 10, 1)); });
    goes_on = other.wait_for (std::chrono::seconds (10)) == std::future_status::ready;
  };
  Answer &answer = end ("t");
  EXPECT_FALSE (is_freed);
  run_jobs ();
  EXPECT_TRUE (is_freed);
  EXPECT_TRUE (goes_on) << "the lock is not held";
  EXPECT_TRUE (other.valid () && other.get ());
  EXPECT_TRUE (is_fine (answer));
}

/* A reply is kept for a minute, and there may be many of them. */
TEST_F (ChunkService, theReplyOfACallIsChargedUntilItsTransferEnds)
{
  gsize n_before;

  reply.assign (100000, 'x');
  send ("t", "abc");
  n_before = tps_budget_get_held (budgets.transfers);
  run ("t");
  run_jobs ();
  EXPECT_GE (tps_budget_get_held (budgets.transfers) + 2000, n_before + reply.size ());
  end ("t");
  run_jobs ();
  EXPECT_EQ (tps_budget_get_held (budgets.transfers), 0u);
}

TEST_F (ChunkService, aReplyForWhichThereIsNoMemoryIsRefused)
{
  reply.assign (20 << 20, 'x');
  send ("t", "abc");
  Answer &answer = run ("t");
  run_jobs ();
  EXPECT_TRUE (answer.has_come);
  EXPECT_LE (tps_budget_get_peak (budgets.transfers), gsize { 16 } << 20);
  EXPECT_LE (tps_budget_get_held (budgets.transfers), 2000u);
  end ("t");
  run_jobs ();
}

/* A refused call in chunks pauses the connection, as a refused plain call does. */
TEST_F (ChunkService, aRefusalOfRowsThrottlesTheConnection)
{
  TpsQuotasOptions options = {};
  TpsTenantEntry entry = { "a", {} };

  options.tenants.get_now_ns = get_now_ns;
  entry.limits.rates[TPS_QUOTA_ROWS] = { 10, 10 };
  g_autoptr (TpsQuotas) quotas = tps_quotas_new (&options);
  tps_quotas_set_limits (quotas, &entry, 1);
  tenant = tps_quotas_find (quotas, "a");
  n_rows = 6;
  for (const char *name : { "t", "u" })
    {
      EXPECT_TRUE (pauses_ms.empty ());
      send (name, "abc");
      run (name);
      run_jobs ();
    }
  EXPECT_EQ (pauses_ms, std::vector<gint> { 200 });
  end ("t");
  end ("u");
  run_jobs ();
  EXPECT_EQ (n_calls, 2);
}

} // namespace
} // namespace thriftps
