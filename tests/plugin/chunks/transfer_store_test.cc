/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/transfer_store.h"

#include <gtest/gtest.h>

#include <set>

#include "plugin/chunks/transfer_name.h"
#include "runtime/base/error.h"
#include "tests/plugin/chunks/chunk_fixture.h"

namespace thriftps {
namespace {

constexpr gint64 second = 1000000000;

class Store : public testing::Test
{
protected:
  Store ()
  {
    TpsTransferStoreOptions options = {};

    options.max_transfers = 3;
    options.max_bytes = 1000;
    store = tps_transfer_store_new (&options);
  }
  ~Store () override
  {
    g_clear_error (&error);
    g_clear_pointer (&ended, tps_transfer_unref);
    tps_transfer_store_free (store);
  }

  TpsTransfer *
  begin (const char *name, gint64 n_bytes, gint32 n_chunks, gint64 now_ns = 0)
  {
    g_clear_error (&error);
    return tps_transfer_store_begin (store, name, n_bytes, n_chunks, now_ns, &error);
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
    EXPECT_TRUE (tps_transfer_feed (transfer, &chunk.chunk, nullptr));
    tps_transfer_advance (transfer);
    tps_message_free (tps_transfer_take_call (transfer, nullptr));
    return transfer;
  }

  TpsTransferStore *store;
  TpsTransfer *ended = nullptr;
  GError *error = nullptr;
};

TEST (TransferName, isNeverTheSame)
{
  std::set<std::string> names;

  for (int i = 0; i < 1000; i++)
    {
      gchar name[TPS_TRANSFER_NAME_BYTES];

      tps_transfer_make_name (name);
      EXPECT_EQ (strlen (name), 32u);
      EXPECT_TRUE (names.insert (name).second);
    }
}

TEST_F (Store, beginsOnceAndResumes)
{
  TpsTransfer *transfer = begin ("a", 100, 10);

  ASSERT_NE (transfer, nullptr);
  EXPECT_EQ (begin ("a", 100, 10), transfer);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 1u);
  EXPECT_EQ (begin ("a", 101, 10), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS));
  EXPECT_EQ (begin ("a", 100, 9), nullptr);
}

TEST_F (Store, limitsTheNumberOfTransfers)
{
  for (const char *name : { "a", "b", "c" })
    ASSERT_NE (begin (name, 1, 1), nullptr);
  EXPECT_EQ (begin ("d", 1, 1), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_GE (tps_error_get_retry_after_ms (error), 0);
  end ("b");
  EXPECT_NE (begin ("d", 1, 1), nullptr);
}

TEST_F (Store, limitsTheirBytes)
{
  ASSERT_NE (begin ("a", 600, 1), nullptr);
  EXPECT_EQ (begin ("b", 401, 1), nullptr);
  EXPECT_GE (tps_error_get_retry_after_ms (error), 0) << "there will be room";
  EXPECT_NE (begin ("b", 400, 1), nullptr);
  EXPECT_EQ (begin ("c", 1001, 1), nullptr);
  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1) << "there will never be room";
  EXPECT_EQ (begin ("c", G_MAXINT64, 1), nullptr);
  end ("a");
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 400u);
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

/* If a repeated begin_transfer extended the expiry, a client that announces large transfers and
 * sends nothing could block others forever. */
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
  TpsTransfer *transfer = tps_transfer_store_keep (store, answer, 0, &error);

  ASSERT_NE (transfer, nullptr);
  EXPECT_EQ (tps_transfer_get_state (transfer), TPS_TRANSFER_ANSWERED);
  EXPECT_EQ (tps_transfer_get_answer (transfer), answer);
  EXPECT_TRUE (is_there (tps_transfer_get_name (transfer)));
  g_autoptr (TpsWriter) large = new_message (pattern (600), TPS_MESSAGE_REPLY);
  EXPECT_EQ (tps_transfer_store_keep (store, large, 0, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  expire (60 * second);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 0u);
}

TEST_F (Store, returnsTheTransfersThatItForgets)
{
  TpsTransfer *a = begin ("a", 500, 10, 0), *b = begin ("b", 400, 10, 0);

  end ("a");
  EXPECT_EQ (ended, a);
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 400u) << "it takes no room any more";
  g_autoptr (GPtrArray) forgotten = tps_transfer_store_expire (store, 60 * second);
  ASSERT_EQ (forgotten->len, 1u);
  EXPECT_EQ (forgotten->pdata[0], b);
  EXPECT_STREQ (tps_transfer_get_name (b), "b");
  EXPECT_EQ (tps_transfer_store_get_n_bytes (store), 0u);
}

TEST_F (Store, endingAMissingTransferChangesNothing)
{
  end ("never");
  EXPECT_EQ (ended, nullptr);
  EXPECT_EQ (tps_transfer_store_get_n_transfers (store), 0u);
}

} // namespace
} // namespace thriftps
