/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/transfer_store.h"

#include <gtest/gtest.h>


#include "plugin/chunks/chunk_layout.h"
#include "runtime/base/error.h"
#include "tests/plugin/chunks/chunk_fixture.h"

namespace thriftps {
namespace {

constexpr gint64 second = 1000000000;
constexpr gint64 mib = 1 << 20;

class Store : public testing::Test
{
protected:
  Store ()
  {
    TpsTransferStoreOptions options = {};

    options.max_transfers = 8;
    options.max_bytes = 1000 * mib;
    store = tps_transfer_store_new (&options);
  }
  ~Store () override
  {
    g_ptr_array_unref (dropped);
    g_clear_error (&error);
    g_clear_pointer (&ended, tps_transfer_unref);
    tps_transfer_store_free (store);
  }

  TpsTransfer *
  begin (const char *name, gint64 n_bytes, gint32 n_chunks, gint64 now_ns = 0,
         const char *tenant = nullptr)
  {
    TpsTransferNeed need = { tenant, now_ns, dropped };

    g_clear_error (&error);
    return tps_transfer_store_begin (store, name, n_bytes, n_chunks, &need, &error);
  }

  /* Makes room for bytes of the transfer, and counts them as progress. */
  bool
  receive (TpsTransfer *transfer, gsize n_bytes, gint64 now_ns = 0)
  {
    TpsTransferNeed need = { nullptr, now_ns, dropped };

    g_clear_error (&error);
    return tps_transfer_store_reserve (store, transfer, n_bytes, &need, &error)
           && tps_transfer_store_touch (store, transfer, now_ns, &error);
  }

  TpsTransfer *
  keep (TpsWriter *answer)
  {
    TpsTransferNeed need = { nullptr, 0, dropped };

    return tps_transfer_store_keep (store, answer, &need, &error);
  }

  bool
  is_there (const char *name)
  {
    g_clear_error (&error);
    return tps_transfer_store_find (store, name, &error) != nullptr;
  }

  void
  end (const char *name)
  {
    g_clear_pointer (&ended, tps_transfer_unref);
    ended = tps_transfer_store_end (store, name);
  }

  /* Drops the expired transfers and returns their number. */
  guint
  expire (gint64 now_ns)
  {
    g_autoptr (GPtrArray) forgotten = tps_transfer_store_expire (store, now_ns);

    return forgotten->len;
  }

  /* Returns a transfer whose call has been taken. */
  TpsTransfer *
  begin_running (const char *name)
  {
    std::string bytes = message_bytes ("abc");
    TpsTransfer *transfer = begin (name, static_cast<gint64> (bytes.size ()), 1);
    Chunk chunk (name, 0, 1, bytes);

    EXPECT_EQ (tps_transfer_check (transfer, &chunk.chunk, nullptr), TPS_CHUNK_NEXT);
    EXPECT_TRUE (receive (transfer, bytes.size ()));
    EXPECT_TRUE (tps_transfer_feed (transfer, &chunk.chunk, nullptr));
    tps_transfer_advance (transfer);
    tps_message_free (tps_transfer_take_call (transfer, nullptr));
    return transfer;
  }

  TpsTransferStore *store;
  GPtrArray *dropped = g_ptr_array_new_with_free_func (
      reinterpret_cast<GDestroyNotify> (tps_transfer_unref));
  TpsTransfer *ended = nullptr;
  GError *error = nullptr;
};

/* A transfer that is incomplete counts with 2 MiB more than have arrived: see PAGE_BYTES. */
TEST_F (Store, limitsTheBytesThatHaveArrived)
{
  TpsTransfer *a = begin ("a", 1000 * mib, 10), *b = begin ("b", 1000 * mib, 10);

  ASSERT_NE (b, nullptr) << "an announcement takes no room";
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 0u);
  EXPECT_TRUE (receive (a, 598 * mib));
  EXPECT_FALSE (receive (b, 398 * mib + 1));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_GE (tps_error_get_retry_after_ms (error), 0) << "there will be room";
  EXPECT_TRUE (receive (b, 398 * mib));
  EXPECT_EQ (begin ("c", 1000 * mib + 1, 1), nullptr);
  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1) << "there will never be room";
  EXPECT_EQ (begin ("c", G_MAXINT64, 1), nullptr);
  end ("a");
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 400u * mib);
}

/* Two transfers that cannot both be completed must not block each other for ever. */
TEST_F (Store, aTransferWithoutProgressGivesWay)
{
  TpsTransfer *a = begin ("a", 1000 * mib, 10), *b = begin ("b", 1000 * mib, 10);

  ASSERT_TRUE (receive (a, 498 * mib, 0));
  ASSERT_TRUE (receive (b, 498 * mib, second));
  EXPECT_FALSE (receive (b, 1, 5 * second - 1));
  EXPECT_TRUE (is_there ("a"));
  EXPECT_TRUE (receive (b, 1, 5 * second));
  EXPECT_FALSE (is_there ("a"));
  ASSERT_EQ (dropped->len, 1u);
  EXPECT_EQ (dropped->pdata[0], a);
  EXPECT_TRUE (receive (b, 502 * mib - 1, 20 * second));
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 1000u * mib);
}

TEST_F (Store, aTenantThatHoldsMoreThanItsShareGivesWay)
{
  TpsTransfer *a = begin ("a", 800 * mib, 10, 0, "A"), *a2 = begin ("a2", 800 * mib, 10, 0, "A"),
              *b = begin ("b", 800 * mib, 10, 0, "B");

  ASSERT_TRUE (receive (a, 698 * mib, 1)) << "others need no room";
  ASSERT_TRUE (receive (a2, 298 * mib, 2));
  EXPECT_TRUE (receive (b, 398 * mib, 3));
  EXPECT_FALSE (is_there ("a")) << "the longest time without progress";
  EXPECT_TRUE (is_there ("a2"));
  a = begin ("a", 800 * mib, 10, 3, "A");
  ASSERT_TRUE (receive (a, 298 * mib, 4));
  EXPECT_TRUE (receive (b, 100 * mib, 5));
  EXPECT_FALSE (is_there ("a2"));
  EXPECT_TRUE (receive (a, 200 * mib, 6));
  EXPECT_FALSE (receive (b, 1, 7)) << "half is its share";
  EXPECT_FALSE (receive (a, 1, 7)) << "nor does its own tenant give way";
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
}

TEST_F (Store, aTenantWithManyTransfersGivesWay)
{
  for (const char *name : { "a", "b", "c", "d" })
    ASSERT_NE (begin (name, 1, 1, 0, "A"), nullptr);
  EXPECT_EQ (begin ("e", 1, 1, 0, "A"), nullptr) << "it leaves as many places to others";
  EXPECT_NE (begin ("e", 1, 1, 0, "B"), nullptr);
  EXPECT_NE (begin ("f", 1, 1, 0, "B"), nullptr);
  EXPECT_EQ (begin ("g", 1, 1, 0, "B"), nullptr) << "A would have fewer";
  EXPECT_NE (begin ("g", 1, 1, 0, "C"), nullptr);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 7u);
  EXPECT_NE (begin ("h", 1, 1, 5 * second, "A"), nullptr) << "there are idle ones";
}

/* A slow client makes progress only once in a chunk, and must not lose to a tenant that holds
 * more. */
TEST_F (Store, anIdleTransferDoesNotGiveWayToATenantThatHoldsMore)
{
  TpsTransfer *slow = begin ("slow", 800 * mib, 10, 0, "A"),
              *heavy = begin ("heavy", 1000 * mib, 10, 0, "B");

  ASSERT_TRUE (receive (slow, 98 * mib, 0) && receive (heavy, 798 * mib, 0));
  EXPECT_FALSE (receive (heavy, 200 * mib, 50 * second));
  EXPECT_TRUE (is_there ("slow"));
  EXPECT_TRUE (receive (slow, 200 * mib, 50 * second)) << "the heavier one gives way";
  EXPECT_FALSE (is_there ("heavy"));
}

TEST_F (Store, nothingGivesWayInVain)
{
  begin_running ("running");
  TpsTransfer *a = begin ("a", 1000 * mib, 10, 0, "A"), *b = begin ("b", 1000 * mib, 10, 0, "B");

  ASSERT_TRUE (receive (a, 598 * mib, 0));
  EXPECT_FALSE (receive (b, 1000 * mib, 50 * second)) << "the running one keeps its room";
  EXPECT_TRUE (is_there ("a"));
  EXPECT_EQ (dropped->len, 0u);
  EXPECT_TRUE (receive (b, 900 * mib, 50 * second));
  EXPECT_FALSE (is_there ("a"));
}

/* The client of a complete transfer would not know whether its call was executed. */
TEST_F (Store, aCompleteTransferGivesWayOnlyAfterAWhile)
{
  std::string bytes = message_bytes ("abc");
  TpsTransfer *a = begin ("a", static_cast<gint64> (bytes.size ()), 1, 0, "A");
  Chunk chunk ("a", 0, 1, bytes);

  for (const char *name : { "a2", "a3", "a4" })
    ASSERT_NE (begin (name, 1, 1, second, "A"), nullptr);
  for (const char *name : { "d", "e", "f", "g" })
    ASSERT_NE (begin (name, 1, 1, second, name), nullptr);
  ASSERT_TRUE (receive (a, bytes.size ()) && tps_transfer_feed (a, &chunk.chunk, nullptr));
  tps_transfer_advance (a);
  ASSERT_EQ (a->state, TPS_TRANSFER_COMPLETE);
  EXPECT_NE (begin ("b", 1, 1, second, "B"), nullptr);
  EXPECT_TRUE (is_there ("a")) << "though it is the oldest";
  EXPECT_NE (begin ("c", 1, 1, 5 * second, "C"), nullptr);
  EXPECT_FALSE (is_there ("a"));
}

TEST_F (Store, nothingRunningGivesWay)
{
  TpsTransfer *running = begin_running ("a"), *b = begin ("b", 1000 * mib, 10, 0, "B");

  EXPECT_FALSE (receive (b, 1000 * mib, 100 * second));
  EXPECT_TRUE (is_there ("a"));
  EXPECT_EQ (running->state, TPS_TRANSFER_RUNNING);
}

TEST_F (Store, forgetsIdleTransfers)
{
  TpsTransfer *a = begin ("a", 1, 1, 0);
  begin ("b", 1, 1, 10 * second);
  EXPECT_EQ (tps_transfer_store_get_next_expiry_ns (store), 60 * second);
  expire (60 * second - 1);
  EXPECT_TRUE (is_there ("a"));
  EXPECT_TRUE (tps_transfer_store_touch (store, a, 20 * second, nullptr));
  expire (70 * second);
  EXPECT_TRUE (is_there ("a"));
  EXPECT_FALSE (is_there ("b"));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
  expire (130 * second);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 0u);
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 0u);
  EXPECT_EQ (tps_transfer_store_get_next_expiry_ns (store), G_MAXINT64);
}

/* If a repeated begin_transfer extended the expiry, a client that sends nothing could keep
 * transfers forever. */
TEST_F (Store, askingForATransferDoesNotKeepIt)
{
  begin ("a", 500, 10, 0);
  ASSERT_NE (begin ("a", 500, 10, 59 * second), nullptr);
  EXPECT_TRUE (is_there ("a"));
  EXPECT_EQ (tps_transfer_store_get_next_expiry_ns (store), 60 * second);
  expire (60 * second);
  EXPECT_FALSE (is_there ("a"));
}

TEST_F (Store, touchesNothingThatHasBeenForgotten)
{
  g_autoptr (TpsTransfer) forgotten = tps_transfer_ref (begin ("a", 500, 10, 0));

  end ("a");
  EXPECT_FALSE (tps_transfer_store_touch (store, forgotten, 50 * second, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
  begin ("a", 500, 10, 0);
  EXPECT_FALSE (tps_transfer_store_touch (store, forgotten, 50 * second, nullptr));
  EXPECT_EQ (tps_transfer_store_get_next_expiry_ns (store), 60 * second)
      << "of another of that name";
}

TEST_F (Store, doesNotForgetRunningTransfers)
{
  TpsTransfer *transfer = begin_running ("a");

  expire (1000 * second);
  ASSERT_TRUE (is_there ("a"));
  tps_transfer_store_answer (store, transfer, new_message (pattern (500), TPS_MESSAGE_REPLY),
                             2000 * second);
  EXPECT_GT (tps_transfer_store_get_n_bytes (store), 500u) << "the answer counts";
  expire (2059 * second);
  EXPECT_TRUE (is_there ("a"));
  expire (3000 * second);
  EXPECT_FALSE (is_there ("a"));
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 0u)
      << "the answer's bytes instead of the call's";
}

TEST_F (Store, endsARunningTransferAfterItsReply)
{
  TpsTransfer *transfer = begin_running ("a");

  end ("a");
  EXPECT_FALSE (is_there ("a"));
  EXPECT_EQ (begin ("a", tps_transfer_get_n_bytes (transfer), 1), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS));
  EXPECT_GT (tps_transfer_store_get_n_bytes (store), 0u) << "its memory is still used";
  tps_transfer_store_answer (store, transfer, new_message ("answer", TPS_MESSAGE_REPLY), 0);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 0u);
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 0u);
}

TEST_F (Store, keepsAnswersOfCallsThatCameInFrames)
{
  TpsWriter *answer = new_message (pattern (500), TPS_MESSAGE_REPLY);
  TpsTransfer *transfer = keep (answer);

  ASSERT_NE (transfer, nullptr);
  EXPECT_EQ (transfer->state, TPS_TRANSFER_ANSWERED);
  EXPECT_EQ (transfer->answer, answer);
  EXPECT_TRUE (is_there (transfer->name));
  ASSERT_TRUE (receive (begin ("f", 1000 * mib, 10), 998 * mib - 1000));
  g_autoptr (TpsWriter) large = new_message (pattern (600), TPS_MESSAGE_REPLY);
  EXPECT_EQ (keep (large), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  expire (60 * second);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 0u);
}

} // namespace
} // namespace thriftps
