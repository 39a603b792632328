/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push ids in snapshots: the export of a push window, and the window that is built from the
 * exported records. */

#include "runtime/server/push_export.h"
#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

TpsPushDigest
digest_of (gint64 sequence)
{
  TpsPushDigest digest {};

  memcpy (digest.bytes, &sequence, sizeof sequence);
  return digest;
}

/* A window of few clients, so that windows become floors and floors become windows again. One push
 * runs at a time. */
class Window
{
public:
  explicit Window (guint max_clients = 6)
  {
    TpsPushWindowOptions options {};

    options.window = 8;
    options.max_clients = max_clients;
    window = tps_push_window_new (&options);
  }
  ~Window ()
  {
    tps_push_window_free (window);
  }

  void
  push (const std::string &client, gint64 sequence, gint64 lsn)
  {
    TpsPushDigest digest = digest_of (sequence);
    TpsPushRequest request {};
    gint64 answer;

    request.client = client.c_str ();
    request.sequence = sequence;
    request.digest = &digest;
    if (tps_push_window_begin (window, &request, &answer, nullptr) == TPS_PUSH_NEW)
      tps_push_window_end (window, client.c_str (), sequence, sequence * 3, lsn);
  }

  TpsPushVerdict
  ask (const std::string &client, gint64 sequence)
  {
    return snapshot_test::ask (window, { client.c_str (), sequence, digest_of (sequence) });
  }

  TpsPushWindow *window;
};

/* An id that was used before the start of the export must never be new in a window that is built
 * from the exported records. */
TEST (PushIds, AreNeverNewAgain)
{
  for (uint64_t seed = 1; seed <= number_of ("SEEDS", 300); seed++)
    {
      Random random (seed);
      Window from, to;
      std::vector<std::pair<std::string, gint64>> used;
      std::map<std::string, gint64> sequences;
      GByteArray *records = g_byte_array_new ();
      gint64 lsn = 0;
      gsize n_used;
      auto push = [&] {
        std::string client = "client" + std::to_string (random () % 12);
        gint64 sequence = sequences[client] += static_cast<gint64> (random () % 4);

        from.push (client, sequence, ++lsn);
        return std::make_pair (client, sequence);
      };

      for (size_t i = 0; i < 20 + random () % 300; i++)
        used.push_back (push ());
      tps_push_export_begin (from.window);
      if (random () % 2 == 0) /* an export that is cancelled halfway */
        {
          tps_push_export_some (from.window, records);
          g_byte_array_set_size (records, 0);
          tps_push_export_begin (from.window);
        }
      do
        for (size_t i = 0; i < random () % 20; i++)
          push ();
      while (tps_push_export_some (from.window, records));
      ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len, &n_used));
      ASSERT_EQ (n_used, records->len);
      for (const auto &id : used)
        ASSERT_NE (to.ask (id.first, id.second), TPS_PUSH_NEW)
            << id.first << " " << id.second << ", seed " << seed;
      g_byte_array_unref (records);
    }
}

/* Remembered pushes must be exported with their replies, also if the export has many pieces. */
TEST (PushIds, KeepTheirAnswers)
{
  Window from (2000), to (2000);
  GByteArray *records = g_byte_array_new ();
  gint64 lsn = 0;
  gint64 answer;
  gsize n_used;
  int n_pieces = 0;

  for (int client = 0; client < 1000; client++)
    for (gint64 sequence = 1; sequence <= 10; sequence++)
      from.push ("client" + std::to_string (client), sequence, ++lsn);
  tps_push_export_begin (from.window);
  while (tps_push_export_some (from.window, records))
    n_pieces++;
  EXPECT_GT (n_pieces, 3);
  ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len, &n_used));
  for (int client = 0; client < 1000; client++)
    {
      std::string name = "client" + std::to_string (client);
      TpsPushDigest digest = digest_of (10);
      TpsPushRequest request {};

      request.client = name.c_str ();
      request.sequence = 10;
      request.digest = &digest;
      ASSERT_EQ (tps_push_window_begin (to.window, &request, &answer, nullptr), TPS_PUSH_REPEAT);
      ASSERT_EQ (answer, 30);
      ASSERT_EQ (to.ask (name, 1), TPS_PUSH_REFUSED);
      ASSERT_EQ (to.ask (name, 11), TPS_PUSH_NEW);
    }
  g_byte_array_unref (records);
}

TEST (PushIds, RefuseInvalidRecords)
{
  Window from, to;
  GByteArray *records = g_byte_array_new ();
  gsize n_used;

  from.push ("client", 1, 1);
  tps_push_export_begin (from.window);
  ASSERT_TRUE (tps_push_export_some (from.window, records));
  ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len - 1, &n_used));
  EXPECT_EQ (n_used, 0u); /* an incomplete record: the rest may follow */
  records->data[0] = 7;
  EXPECT_FALSE (tps_push_export_read (to.window, records->data, records->len, &n_used));
  EXPECT_EQ (to.ask ("client", 1), TPS_PUSH_NEW);
  g_byte_array_unref (records);
}

} // namespace
