/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/answer_assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/base/error.h"
#include "tests/plugin/chunks/chunk_fixture.h"

namespace thriftps {
namespace {

class Assembly : public testing::Test
{
protected:
  ~Assembly () override
  {
    g_clear_error (&error);
    tps_assembly_free (assembly);
  }

  void
  begin (gsize n_argument, gsize n_each, bool is_known)
  {
    argument = pattern (n_argument);
    std::string bytes = message_bytes (argument, TPS_MESSAGE_REPLY);
    parts = cut (bytes, n_each);
    tps_assembly_free (assembly);
    assembly = tps_assembly_new (is_known ? static_cast<gint64> (bytes.size ()) : 0,
                                 is_known ? count () : 0, nullptr, nullptr);
    ASSERT_NE (assembly, nullptr);
  }

  gint32
  count () const
  {
    return static_cast<gint32> (parts.size ());
  }

  bool
  put (gint32 index)
  {
    Chunk chunk ("t", index, count (), parts[index]);

    return put (chunk);
  }

  bool
  put (Chunk &chunk)
  {
    g_clear_error (&error);
    return tps_assembly_put (assembly, &chunk.chunk, &may_help, &error);
  }

  void
  expect_answer ()
  {
    g_autoptr (TpsMessage) answer = tps_assembly_take (assembly);

    ASSERT_NE (answer, nullptr);
    EXPECT_EQ (argument_of (answer), argument);
  }

  TpsAssembly *assembly = nullptr;
  std::string argument;
  std::vector<std::string> parts;
  gboolean may_help = FALSE;
  GError *error = nullptr;
};

/* Requested chunks arrive in any order. Some arrive twice, some are corrupt. */
TEST_F (Assembly, putsTheAnswerTogetherInAnyOrder)
{
  for (guint seed = 0; seed < 300; seed++)
    {
      std::mt19937 random (seed);
      std::vector<gint32> asked;
      int n_rounds = 0;

      begin (random () % 20000, 1 + random () % 6000, seed % 2 == 0);
      while (tps_assembly_get_n_received (assembly) < count ())
        {
          gint32 index;

          ASSERT_LT (n_rounds++, 100000);
          while ((index = tps_assembly_ask (assembly)) >= 0)
            asked.push_back (index);
          if (asked.empty ())
            {
              tps_assembly_ask_again (assembly);
              continue;
            }
          EXPECT_LE (asked.size (), 2u * TPS_ASSEMBLY_WINDOW);
          std::shuffle (asked.begin (), asked.end (), random);
          index = asked.back ();
          asked.pop_back ();
          Chunk chunk ("t", index, count (), parts[index]);
          bool corrupt = random () % 5 == 0;
          if (corrupt)
            chunk->crc32c ^= 1;
          ASSERT_EQ (put (chunk), !corrupt) << error->message;
          EXPECT_TRUE (!corrupt || may_help);
          if (random () % 5 == 0)
            {
              ASSERT_TRUE (put (index));
            }
        }
      expect_answer ();
    }
}

TEST_F (Assembly, asksForTheFirstAloneWhereTheNumberIsNotKnown)
{
  begin (1000, 10, false);
  EXPECT_EQ (tps_assembly_ask (assembly), 0);
  EXPECT_EQ (tps_assembly_ask (assembly), -1);
  ASSERT_TRUE (put (0));
  for (gint32 i = 1; i <= TPS_ASSEMBLY_WINDOW; i++)
    EXPECT_EQ (tps_assembly_ask (assembly), i);
  EXPECT_EQ (tps_assembly_ask (assembly), -1) << "no more than the window";
}

TEST_F (Assembly, takesAWholeAnswer)
{
  begin (1000, 1 << 20, true);
  g_autoptr (GBytes) bytes = g_bytes_new (parts[0].data (), parts[0].size ());

  ASSERT_TRUE (tps_assembly_put_whole (assembly, bytes, nullptr));
  expect_answer ();
}

TEST_F (Assembly, refusesATruncatedWholeReply)
{
  begin (1000, 1 << 20, true);
  g_autoptr (GBytes) half = g_bytes_new (parts[0].data (), parts[0].size () / 2);

  EXPECT_FALSE (tps_assembly_put_whole (assembly, half, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INTERNAL));
}

TEST_F (Assembly, refusesNumbersThatFitNoMessage)
{
  const std::pair<gint64, gint32> wrong[] = {
    { -1, 1 }, { 1, -1 }, { 1, 2 }, { 0, 1 }, { G_MININT64, G_MININT32 }
  };

  for (auto [n_bytes, n_chunks] : wrong)
    EXPECT_EQ (tps_assembly_new (n_bytes, n_chunks, nullptr, nullptr), nullptr);
}

TEST_F (Assembly, refusesInconsistentChunksForGood)
{
  begin (1000, 100, true);
  tps_assembly_ask (assembly);
  Chunk other ("t", 0, count () + 1, parts[0]), negative ("t", -1, count (), parts[0]),
      none ("t", 0, 0, parts[0]), empty ("t", 0, count (), ""),
      half ("t", 0, count (), parts[0].substr (50));

  for (Chunk *chunk : { &other, &negative, &none, &empty, &half })
    {
      EXPECT_FALSE (put (*chunk));
      EXPECT_FALSE (may_help);
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INTERNAL));
    }
}

TEST_F (Assembly, anUnrequestedChunkChangesNothing)
{
  begin (1000, 100, true);
  tps_assembly_ask (assembly);
  EXPECT_TRUE (put (5));
  EXPECT_EQ (tps_assembly_get_n_received (assembly), 0);
}

} // namespace
} // namespace thriftps
