/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the client side together with the server's store, over a simulated network that chooses the
 * failures. The clock is also simulated. */

#include "plugin/client/chunked_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>

#include "plugin/chunks/transfer_store.h"
#include "runtime/base/error.h"
#include "tests/plugin/chunks/chunk_fixture.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

constexpr gint64 second = 1000000000;

/* The fate of a call. */
enum class Fate
{
  FINE,
  /* the connection is lost before the server has received the call, with all in-flight calls */
  LOST_BEFORE,
  LOST_AFTER, /* the connection is lost after the server has executed the call */
  CORRUPT,    /* a bit of a chunk's CRC flips, in either direction */
  BUSY,       /* the server refuses the call before any effect, for some time */
};

constexpr gint busy_ms = 40;

struct Call
{
  std::string method;
  std::unique_ptr<WireMessage> message;
  TpsClientDone done;
  gpointer user_data;
};

/* A server with one store, and the connection to it. */
class Network
{
public:
  Network ()
  {
    restart ();
  }
  ~Network ()
  {
    tps_transfer_store_free (store);
  }

  void
  restart ()
  {
    TpsTransferStoreOptions options = {};

    if (store != nullptr)
      tps_transfer_store_free (store);
    store = tps_transfer_store_new (&options);
  }

  /* Delivers calls and runs delayed functions until none are left. */
  void
  run ()
  {
    for (int i = 0; i < 1000000 && (!calls.empty () || !delays.empty ()); i++)
      if (!calls.empty ())
        step ();
      else
        wake ();
    ASSERT_TRUE (calls.empty () && delays.empty ());
  }

  std::function<Fate (const std::string &method)> decide = [] (const std::string &) {
    return Fate::FINE;
  };
  std::function<gint32 (gint32 index)> choose_chunk = [] (gint32 index) { return index; };
  std::string answer; /* the argument of the reply to the transferred call */
  gsize answer_chunk_bytes = 1000;
  TpsTransferStore *store = nullptr;
  gint64 now_ns = second;
  int n_runs = 0, n_losses = 0;
  std::vector<std::string> seen; /* names of the called methods, in order */
  GError *refusal = nullptr;     /* begin_transfer fails with this error; NULL = none */

  static const TpsChunkedOps ops;

private:
  static void
  call (gpointer client, const TpsRpc *rpc, gconstpointer arguments, gint64 deadline_ns,
        TpsClientDone done, gpointer user_data)
  {
    auto self = static_cast<Network *> (client);
    auto message = std::make_unique<WireMessage> (
        [&] (TpsWriter *out) { tps_rpc_write_arguments (rpc, out, arguments); });

    self->calls.push_back ({ rpc->name, std::move (message), done, user_data });
  }

  static void
  delay (gpointer client, gint64 until_ns, TpsClientDelayed func, gpointer user_data)
  {
    auto self = static_cast<Network *> (client);

    EXPECT_GT (until_ns, self->now_ns);
    self->delays.push_back ([=] {
      self->now_ns = until_ns;
      func (user_data, nullptr);
    });
  }

  static gint64
  get_now_ns (gpointer client)
  {
    return static_cast<Network *> (client)->now_ns;
  }

  void
  wake ()
  {
    auto func = delays.front ();

    delays.pop_front ();
    func ();
  }

  void
  step ()
  {
    Fate fate = decide (calls.front ().method);

    if (fate == Fate::LOST_BEFORE || fate == Fate::LOST_AFTER)
      {
        if (fate == Fate::LOST_AFTER)
          serve (calls.front (), false, nullptr);
        lose ();
        return;
      }
    Call next = std::move (calls.front ());
    calls.pop_front ();
    if (fate == Fate::BUSY)
      {
        refuse_busy (next);
        return;
      }
    serve (next, fate == Fate::CORRUPT, [&] (TpsReader *in, TpsWireType type, const GError *error) {
      next.done (next.user_data, in, type, error);
    });
  }

  static void
  refuse_busy (const Call &call)
  {
    g_autoptr (GError) error = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "busy");

    tps_error_set_retry_after_ms (error, busy_ms);
    call.done (call.user_data, nullptr, TPS_WIRE_STOP, error);
  }

  void
  lose ()
  {
    g_autoptr (GError) error = g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "lost");
    std::deque<Call> lost = std::move (calls);

    n_losses++;
    calls.clear ();
    for (Call &call : lost)
      call.done (call.user_data, nullptr, TPS_WIRE_STOP, error);
  }

  using Reply = std::function<void (TpsReader *, TpsWireType, const GError *)>;

  void
  serve (Call &call, bool corrupt, const Reply &reply)
  {
    g_autoptr (GError) error = nullptr;
    Write write;

    seen.push_back (call.method);
    write = handle (call, corrupt, &error);
    if (!reply)
      return;
    if (error != nullptr)
      {
        reply (nullptr, TPS_WIRE_STOP, error);
        return;
      }
    WireMessage result (write);
    TpsWireType type;
    TpsReader *in = result.result (&type);
    reply (in, type, nullptr);
  }

  Write
  handle (Call &call, bool corrupt, GError **error)
  {
    g_auto (TpsTransferArguments) arguments = {};

    if (call.method == "begin_transfer")
      return begin (call, error);
    if (call.method == "put_chunk")
      return put (call, corrupt, error);
    if (call.method == "run_transfer")
      return run_transfer (call, error);
    if (call.method == "get_chunk")
      return get (call, corrupt, error);
    EXPECT_EQ (call.method, "end_transfer");
    EXPECT_TRUE (tps_rpc_read_arguments (&tps_end_transfer_rpc, call.message->arguments (),
                                         &arguments, nullptr));
    g_autoptr (TpsTransfer) ended = tps_transfer_store_end (store, arguments.transfer);
    return [] (TpsWriter *) {};
  }

  Write
  begin (Call &call, GError **error)
  {
    g_auto (TpsTransferArguments) arguments = {};

    EXPECT_TRUE (tps_rpc_read_arguments (&tps_begin_transfer_rpc, call.message->arguments (),
                                         &arguments, nullptr));
    if (refusal != nullptr)
      {
        g_propagate_error (error, g_error_copy (refusal));
        return {};
      }
    g_autoptr (GPtrArray) dropped = g_ptr_array_new ();
    TpsTransferNeed need = { nullptr, now_ns, dropped };
    TpsTransfer *transfer = tps_transfer_store_begin (store, arguments.transfer, arguments.bytes,
                                                      arguments.count, &need, error);
    if (transfer == nullptr)
      return {};
    gint32 n_received = transfer->n_received;
    return [n_received] (TpsWriter *out) {
      tps_rpc_write_result (&tps_begin_transfer_rpc, out, &n_received);
    };
  }

  Write
  put (Call &call, bool corrupt, GError **error)
  {
    g_auto (TpsChunk) chunk = {};

    EXPECT_TRUE (
        tps_rpc_read_arguments (&tps_put_chunk_rpc, call.message->arguments (), &chunk, nullptr));
    chunk.crc32c ^= corrupt ? 1 : 0;
    TpsTransfer *transfer = tps_transfer_store_find (store, chunk.transfer, error);
    if (transfer == nullptr)
      return {};
    TpsChunkVerdict verdict = tps_transfer_check (transfer, &chunk, error);
    if (verdict == TPS_CHUNK_NEXT)
      {
        EXPECT_TRUE (tps_transfer_feed (transfer, &chunk, error));
        tps_transfer_advance (transfer);
      }
    return [] (TpsWriter *) {};
  }

  Write
  run_transfer (Call &call, GError **error)
  {
    g_auto (TpsTransferArguments) arguments = {};

    EXPECT_TRUE (tps_rpc_read_arguments (&tps_run_transfer_rpc, call.message->arguments (),
                                         &arguments, nullptr));
    TpsTransfer *transfer = tps_transfer_store_find (store, arguments.transfer, error);
    if (transfer == nullptr)
      return {};
    if (transfer->state != TPS_TRANSFER_ANSWERED)
      {
        g_autoptr (TpsMessage) message = tps_transfer_take_call (transfer, error);
        if (message == nullptr)
          return {};
        n_runs++;
        received = argument_of (message);
        tps_transfer_store_answer (store, transfer, new_message (answer, TPS_MESSAGE_REPLY),
                                   now_ns);
      }
    return [this, transfer] (TpsWriter *out) {
      TpsLargeAnswer large = {};
      TpsChunkLayout layout = tps_chunk_layout (tps_transfer_get_n_bytes (transfer),
                                                answer_chunk_bytes);

      large.bytes = layout.n_bytes;
      large.count = layout.n_chunks > 1 ? layout.n_chunks : 0;
      if (large.count == 0)
        large.message.pieces = tps_writer_get_pieces (transfer->answer, &large.message.n_pieces,
                                                      nullptr);
      tps_rpc_write_result (&tps_run_transfer_rpc, out, &large);
    };
  }

  Write
  get (Call &call, bool corrupt, GError **error)
  {
    g_auto (TpsTransferArguments) arguments = {};

    EXPECT_TRUE (tps_rpc_read_arguments (&tps_get_chunk_rpc, call.message->arguments (), &arguments,
                                         nullptr));
    TpsTransfer *transfer = tps_transfer_store_find (store, arguments.transfer, error);
    if (transfer == nullptr)
      return {};
    gint32 index = choose_chunk (arguments.index);
    return [this, transfer, index, corrupt] (TpsWriter *out) {
      g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
      TpsChunkLayout layout = tps_chunk_layout (tps_transfer_get_n_bytes (transfer),
                                                answer_chunk_bytes);
      TpsChunk chunk = {};

      tps_chunk_layout_get_pieces (&layout, index, transfer->answer, pieces);
      chunk.transfer = const_cast<gchar *> (transfer->name);
      chunk.index = index;
      chunk.count = layout.n_chunks;
      chunk.data.pieces = reinterpret_cast<const struct iovec *> (pieces->data);
      chunk.data.n_pieces = pieces->len;
      chunk.crc32c = static_cast<gint32> (
          tps_crc32c_of_pieces (chunk.data.pieces, chunk.data.n_pieces));
      chunk.crc32c ^= corrupt ? 1 : 0;
      tps_rpc_write_result (&tps_get_chunk_rpc, out, &chunk);
    };
  }

public:
  std::string received; /* the argument of the executed call */

private:
  std::deque<Call> calls;
  std::deque<std::function<void ()>> delays;
};

const TpsChunkedOps Network::ops = { call, delay, get_now_ns };

class ChunkedCall : public testing::Test
{
protected:
  ~ChunkedCall () override
  {
    tps_message_free (got);
    g_clear_error (&error);
    g_clear_error (&network.refusal);
  }

  TpsChunkedOptions
  options ()
  {
    TpsChunkedOptions all = {};

    all.ops = &Network::ops;
    all.client = &network;
    all.name = "Service:method";
    all.max_frame_bytes = 512 + n_each;
    all.deadline_ns = deadline_ns;
    return all;
  }

  static void
  on_done (gpointer user_data, TpsMessage *reply, GError *why)
  {
    auto self = static_cast<ChunkedCall *> (user_data);

    EXPECT_EQ (self->n_done++, 0);
    EXPECT_EQ (reply == nullptr, why != nullptr);
    self->got = reply;
    self->error = why;
  }

  void
  send (const std::string &argument)
  {
    g_autoptr (TpsWriter) message = new_message (argument);
    TpsChunkedOptions all = options ();

    forget_outcome ();
    tps_chunked_call_send (&all, message, on_done, this);
    network.run ();
    EXPECT_EQ (n_done, 1);
  }

  /* Keeps a reply in the server's store, and fetches it. */
  void
  fetch_kept (const std::string &argument)
  {
    TpsWriter *message = new_message (argument, TPS_MESSAGE_REPLY);
    TpsChunkedOptions all = options ();
    g_autoptr (GPtrArray) dropped = g_ptr_array_new ();
    TpsTransferNeed need = { nullptr, 0, dropped };
    TpsTransfer *transfer = tps_transfer_store_keep (network.store, message, &need, nullptr);

    forget_outcome ();
    network.answer = argument;
    tps_chunked_call_fetch (&all, transfer->name, on_done, this);
    network.run ();
    EXPECT_EQ (n_done, 1);
  }

  void
  forget_outcome ()
  {
    n_done = 0;
    g_clear_pointer (&got, tps_message_free);
    g_clear_error (&error);
  }

  void
  expect_answer (const std::string &argument)
  {
    ASSERT_NE (got, nullptr) << error->message;
    EXPECT_EQ (network.received, argument);
    EXPECT_EQ (argument_of (got), network.answer);
    EXPECT_EQ (network.n_runs, 1);
    EXPECT_EQ (tps_transfer_store_get_n_transfers (network.store), 0u) << "ended";
  }

  void
  expect_error (int code)
  {
    ASSERT_NE (error, nullptr);
    EXPECT_EQ (error->code, code) << error->message;
  }

  Network network;
  gsize n_each = 100;
  gint64 deadline_ns = 1000 * second;
  TpsMessage *got = nullptr;
  GError *error = nullptr;
  int n_done = 0;
};

/* The call must run exactly once and its reply must arrive, at any failure. */
TEST_F (ChunkedCall, survivesANetworkThatLosesAndCorrupts)
{
  for (guint seed = 0; seed < 300; seed++)
    {
      std::mt19937 random (seed);
      std::string argument = pattern (random () % 6000, seed);

      network.answer = pattern (random () % 6000, seed + 1);
      network.answer_chunk_bytes = 1 + random () % 700;
      n_each = 60 + random () % 900;
      network.n_runs = 0;
      network.decide = [&] (const std::string &method) {
        guint die = random () % 100;

        if (method == "end_transfer")
          return Fate::FINE;
        if (die < 4 && network.seen.size () > 0 && method != "begin_transfer")
          return Fate::LOST_BEFORE;
        if (die < 8 && method != "begin_transfer")
          return Fate::LOST_AFTER;
        return die < 12 ? Fate::CORRUPT : Fate::FINE;
      };
      send (argument);
      expect_answer (argument);
      network.now_ns = second;
    }
  EXPECT_GT (network.n_losses, 300);
}

/* The server refuses each call in turn for a while, for example because a tenant has reached its
 * limit. Chunks that have arrived must not be sent again. */
TEST_F (ChunkedCall, goesOnWhereItWasWhenTheServerWasBusy)
{
  std::string argument = pattern (1000);
  bool was_busy = true;

  network.answer = pattern (3500, 9);
  for (int at = 1; was_busy; at++)
    {
      int n_calls = 0;

      was_busy = false;
      network.n_runs = 0;
      network.now_ns = second;
      network.seen.clear ();
      network.decide = [&] (const std::string &method) {
        if (method == "end_transfer" || n_calls++ < at || n_calls > at + 10)
          return Fate::FINE;
        was_busy = true;
        return Fate::BUSY;
      };
      send (argument);
      if (!was_busy)
        break;
      expect_answer (argument);
      EXPECT_GE (network.now_ns, second + 2 * busy_ms * 1000000);
      EXPECT_LE (std::count (network.seen.begin (), network.seen.end (), "put_chunk"), 11 + 3);
    }
}

TEST_F (ChunkedCall, doesNotWaitForAServerThatIsBusyBeyondTheDeadline)
{
  network.decide = [] (const std::string &method) {
    return method == "put_chunk" ? Fate::BUSY : Fate::FINE;
  };
  deadline_ns = 3 * second;
  send (pattern (1000));
  expect_error (TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_LT (network.now_ns, 3 * second);
  EXPECT_GT (network.now_ns, 2 * second);
}

TEST_F (ChunkedCall, aConnectionThatIsNeverMadeFailsTheCallAtOnce)
{
  network.decide = [] (const std::string &) { return Fate::LOST_BEFORE; };
  send (pattern (1000));
  expect_error (TPS_ERROR_CONNECTION_LOST);
  EXPECT_EQ (network.n_losses, 1);
}

TEST_F (ChunkedCall, aChunkThatIsAlwaysCorruptIsAnError)
{
  network.decide = [] (const std::string &method) {
    return method == "put_chunk" ? Fate::CORRUPT : Fate::FINE;
  };
  send (pattern (1000));
  expect_error (TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (network.n_runs, 0);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (network.store), 0u);
}

TEST_F (ChunkedCall, aReplyThatIsAlwaysCorruptIsAnError)
{
  network.answer = pattern (5000);
  network.decide = [] (const std::string &method) {
    return method == "get_chunk" ? Fate::CORRUPT : Fate::FINE;
  };
  send (pattern (1000));
  expect_error (TPS_ERROR_INTERNAL);
  EXPECT_NE (std::string (error->message).find ("CRC32C"), std::string::npos) << error->message;
}

TEST_F (ChunkedCall, aServerThatForgotBeforeTheCallRanGetsItAgain)
{
  int n_puts = 0;

  network.decide = [&] (const std::string &method) {
    if (method == "put_chunk" && ++n_puts == 5)
      {
        network.restart ();
        return Fate::LOST_BEFORE;
      }
    return Fate::FINE;
  };
  send (pattern (1000));
  expect_answer (pattern (1000));
}

/* The call may have been executed, so it must not be sent again. */
TEST_F (ChunkedCall, aServerThatForgotARunningCallIsALostConnection)
{
  network.decide = [&] (const std::string &method) {
    if (method == "run_transfer" && network.n_losses == 0)
      {
        network.restart ();
        return Fate::LOST_BEFORE;
      }
    return Fate::FINE;
  };
  send (pattern (1000));
  expect_error (TPS_ERROR_CONNECTION_LOST);
  EXPECT_EQ (network.n_runs, 0);
}

TEST_F (ChunkedCall, aPeerWithoutTheServiceGivesAnErrorThatNamesTheFlag)
{
  network.refusal = g_error_new (TPS_ERROR, TPS_ERROR_NOT_FOUND, "unknown service \"Chunks\"");
  send (pattern (1000));
  expect_error (TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_NE (std::string (error->message).find ("612"), std::string::npos) << error->message;
  EXPECT_NE (std::string (error->message).find ("--max-frame-mib"), std::string::npos);
}

TEST_F (ChunkedCall, aServerWithoutRoomRefusesWithARetryTime)
{
  network.refusal = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no room");
  tps_error_set_retry_after_ms (network.refusal, 70);
  send (pattern (1000));
  expect_error (TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (tps_error_get_retry_after_ms (error), 70);
}

/* Before the first chunk has arrived, the client does not know the number of chunks. */
TEST_F (ChunkedCall, anotherChunkThanTheFirstIsAnError)
{
  network.choose_chunk = [] (gint32) { return 1; };
  fetch_kept (pattern (5000));
  expect_error (TPS_ERROR_INTERNAL);
  EXPECT_NE (std::string (error->message).find ("requested"), std::string::npos) << error->message;
  EXPECT_EQ (tps_transfer_store_get_n_transfers (network.store), 0u) << "ended";
}

/* The server repeats chunk 0 instead of a missing chunk. When the call fails, no other call may be
 * in flight. */
TEST_F (ChunkedCall, aChunkThatComesInsteadOfAnotherIsAnError)
{
  for (gint32 missing = 1; missing < 6; missing++)
    {
      network.choose_chunk = [&] (gint32 index) { return index == missing ? 0 : index; };
      fetch_kept (pattern (5500));
      expect_error (TPS_ERROR_INTERNAL);
    }
}

TEST_F (ChunkedCall, anAnswerThatIsGoneIsALostConnection)
{
  TpsChunkedOptions all = options ();

  tps_chunked_call_fetch (&all, "gone", on_done, this);
  network.run ();
  expect_error (TPS_ERROR_CONNECTION_LOST);
}

} // namespace
} // namespace thriftps
