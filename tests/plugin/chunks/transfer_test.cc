/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/transfer.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/base/error.h"
#include "tests/plugin/chunks/chunk_fixture.h"

namespace thriftps {
namespace {

class Transfer : public testing::Test
{
protected:
  ~Transfer () override
  {
    g_clear_error (&error);
    if (transfer != nullptr)
      tps_transfer_unref (transfer);
  }

  void
  begin (const std::string &message, gsize n_each)
  {
    parts = cut (message, n_each);
    transfer = tps_transfer_new ("t", static_cast<gint64> (message.size ()), count (), nullptr,
                                 nullptr);
    ASSERT_NE (transfer, nullptr);
  }

  gint32
  count () const
  {
    return static_cast<gint32> (parts.size ());
  }

  /* Checks and feeds a chunk as the service does. */
  bool
  put (Chunk &chunk)
  {
    g_clear_error (&error);
    TpsChunkVerdict verdict = tps_transfer_check (transfer, &chunk.chunk, &error);
    if (verdict != TPS_CHUNK_NEXT)
      return verdict == TPS_CHUNK_REPEATED;
    if (!tps_transfer_feed (transfer, &chunk.chunk, &error))
      return false;
    tps_transfer_advance (transfer);
    return true;
  }

  bool
  put (gint32 index)
  {
    Chunk chunk ("t", index, count (), parts[index]);

    return put (chunk);
  }

  void
  expect_refused (Chunk &chunk, const std::string &why)
  {
    gint32 n_before = tps_transfer_get_n_received (transfer);

    EXPECT_FALSE (put (chunk));
    ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    EXPECT_NE (std::string (error->message).find (why), std::string::npos) << error->message;
    EXPECT_EQ (tps_transfer_get_n_received (transfer), n_before);
  }

  TpsTransfer *transfer = nullptr;
  std::vector<std::string> parts;
  GError *error = nullptr;
};

TEST_F (Transfer, chunksBecomeTheCall)
{
  std::string argument = pattern (50000);

  for (gsize n_each : { 1, 100, 4096, 8191, 60000 })
    {
      begin (message_bytes (argument), n_each);
      for (gint32 i = 0; i < count (); i++)
        {
          EXPECT_EQ (tps_transfer_get_state (transfer), TPS_TRANSFER_RECEIVING);
          ASSERT_TRUE (put (i)) << error->message;
        }
      EXPECT_EQ (tps_transfer_get_state (transfer), TPS_TRANSFER_COMPLETE);
      g_autoptr (TpsMessage) call = tps_transfer_take_call (transfer, nullptr);
      ASSERT_NE (call, nullptr);
      EXPECT_STREQ (call->name, "Service:method");
      EXPECT_EQ (argument_of (call), argument);
      EXPECT_EQ (tps_transfer_get_state (transfer), TPS_TRANSFER_RUNNING);
      tps_transfer_unref (transfer);
      transfer = nullptr;
    }
}

/* Compares the transfer with a model that knows only the number of received chunks. */
TEST_F (Transfer, survivesRepeatsGapsAndCorruption)
{
  std::string argument = pattern (3000);

  for (guint seed = 0; seed < 300; seed++)
    {
      std::mt19937 random (seed);
      gint32 n_there = 0;

      begin (message_bytes (argument), 1 + random () % 700);
      while (n_there < count ())
        {
          gint32 index = static_cast<gint32> (random () % static_cast<guint> (count ()));
          if (random () % 2 == 0)
            index = n_there;
          Chunk chunk ("t", index, count (), parts[index]);
          bool corrupt = random () % 4 == 0;
          if (corrupt)
            chunk->crc32c ^= 1 << random () % 31;
          bool expected = !corrupt && index <= n_there;

          EXPECT_EQ (put (chunk), expected);
          if (expected && index == n_there)
            n_there++;
          ASSERT_EQ (tps_transfer_get_n_received (transfer), n_there);
        }
      g_autoptr (TpsMessage) call = tps_transfer_take_call (transfer, nullptr);
      EXPECT_EQ (argument_of (call), argument);
      tps_transfer_unref (transfer);
      transfer = nullptr;
    }
}

TEST_F (Transfer, refusesNumbersThatFitNoMessage)
{
  const std::pair<gint64, gint32> wrong[] = { { 0, 1 },          { -1, 1 },
                                              { 1, 0 },          { 1, -1 },
                                              { 10, 11 },        { G_MININT64, 1 },
                                              { 5, G_MAXINT32 }, { 5, G_MININT32 } };

  for (auto [n_bytes, n_chunks] : wrong)
    {
      g_autoptr (GError) refusal = nullptr;

      EXPECT_EQ (tps_transfer_new ("t", n_bytes, n_chunks, nullptr, &refusal), nullptr);
      EXPECT_TRUE (g_error_matches (refusal, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    }
}

TEST_F (Transfer, refusesChunksWithOtherNumbers)
{
  begin (message_bytes ("abc"), 10);
  Chunk negative ("t", -1, count (), parts[0]), beyond ("t", count (), count (), parts[0]),
      other ("t", 0, count () + 1, parts[0]), gap ("t", 1, count (), parts[1]),
      shorter ("t", 0, count (), parts[0].substr (1)),
      longer ("t", 0, count (), parts[0] + parts[1]), empty ("t", 0, count (), "");

  expect_refused (negative, "chunk -1 of");
  expect_refused (beyond, "was begun with");
  expect_refused (other, "was begun with");
  expect_refused (gap, "after a gap");
  expect_refused (shorter, "does not fit");
  expect_refused (longer, "does not fit");
  expect_refused (empty, "does not fit");
}

TEST_F (Transfer, refusesALaterChunkOfAnotherLength)
{
  begin (message_bytes (pattern (100)), 50);
  ASSERT_TRUE (put (0));
  Chunk shorter ("t", 1, count (), parts[1].substr (1));

  expect_refused (shorter, "does not fit");
  EXPECT_TRUE (put (1));
}

TEST_F (Transfer, refusesAWrongCrcAndTakesTheChunkAgain)
{
  begin (message_bytes (pattern (100)), 50);
  Chunk corrupt ("t", 0, count (), parts[0]);

  corrupt->crc32c++;
  expect_refused (corrupt, "CRC32C");
  EXPECT_TRUE (put (0));
  Chunk repeated ("t", 0, count (), parts[0]);
  repeated->crc32c++;
  expect_refused (repeated, "CRC32C");
}

TEST_F (Transfer, refusesBytesThatAreNoMessage)
{
  std::string message = message_bytes ("abc");
  const std::pair<std::string, std::string> wrong[] = {
    { std::string (40, '\xaa'), "0xaa" },
    { message.substr (0, message.size () - 1), "needs 1 bytes" },
    { message + "x", "follow" },
    { std::string ("\0\0\0\x20", 4) + message, "0x00" },
  };

  for (const auto &[bytes, why] : wrong)
    {
      bool ok = true;

      begin (bytes, 11);
      for (gint32 i = 0; i < count () && ok; i++)
        ok = put (i);
      EXPECT_FALSE (ok);
      ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
      EXPECT_NE (std::string (error->message).find (why), std::string::npos) << error->message;
      tps_transfer_unref (transfer);
      transfer = nullptr;
    }
}

TEST_F (Transfer, runsOnlyWholeCalls)
{
  begin (message_bytes ("abc"), 10);
  put (0);
  EXPECT_EQ (tps_transfer_take_call (transfer, &error), nullptr);
  EXPECT_NE (std::string (error->message).find ("1 of 4"), std::string::npos) << error->message;
  tps_transfer_unref (transfer);

  g_clear_error (&error);
  begin (message_bytes ("abc", TPS_MESSAGE_ONEWAY), 1000);
  put (0);
  EXPECT_EQ (tps_transfer_take_call (transfer, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

} // namespace
} // namespace thriftps
