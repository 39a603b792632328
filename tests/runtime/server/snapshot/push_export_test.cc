/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push ids in snapshots: the export of a push window, and the window that is built from the
 * exported records. */

#include "runtime/server/push_window.h"
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

gint64 now_ns;

/* A window of few clients, so that windows become floors and floors become windows again. One push
 * runs at a time. */
class Window
{
public:
  explicit Window (guint max_clients = 6, guint max_floors = 0)
  {
    TpsPushWindowOptions options {};

    options.window = 8;
    options.max_clients = max_clients;
    options.max_floors = max_floors;
    options.floor_idle_ns = 1000;
    options.get_now_ns = [] { return now_ns; };
    window = tps_push_window_new (&options);
  }
  ~Window ()
  {
    tps_push_window_free (window);
  }

  TpsPushVerdict
  begin (const std::string &client, gint64 sequence, gint64 *answer, GError **error = nullptr,
         const gchar *tenant = nullptr)
  {
    TpsPushDigest digest = digest_of (sequence);
    TpsPushRequest request {};

    request.client = client.c_str ();
    request.sequence = sequence;
    request.digest = &digest;
    request.tenant = tenant;
    return tps_push_window_begin (window, &request, answer, error);
  }

  TpsPushVerdict
  push (const std::string &client, gint64 sequence, gint64 lsn, const gchar *tenant = nullptr)
  {
    gint64 answer;
    TpsPushVerdict verdict = begin (client, sequence, &answer, nullptr, tenant);

    if (verdict == TPS_PUSH_NEW)
      tps_push_window_end (window, client.c_str (), sequence, sequence * 3, lsn);
    return verdict;
  }

  /* Adds all clients of `from`. */
  void
  import (const Window &from)
  {
    GByteArray *records = g_byte_array_new ();
    gsize n_used;

    tps_push_export_begin (from.window);
    while (tps_push_export_some (from.window, records))
      ;
    ASSERT_TRUE (tps_push_export_read (window, records->data, records->len, &n_used, nullptr));
    ASSERT_EQ (n_used, records->len);
    tps_push_export_end_read (window);
    g_byte_array_unref (records);
  }

  gsize
  count_floors () const
  {
    TpsPushWindowSize size;

    tps_push_window_get_size (window, &size);
    return size.n_floors;
  }

  TpsPushVerdict
  ask (const std::string &client, gint64 sequence)
  {
    return snapshot_test::ask (window, { client.c_str (), sequence, digest_of (sequence) });
  }

  TpsPushWindow *window;
};

/* A smaller --push-clients, and a share that has become too small: every client must be known. */
TEST (PushIds, AreNeverNewInASmallerWindow)
{
  for (const gchar *tenant : { static_cast<const gchar *> (nullptr), "ads" })
    {
      Window from (320), to (2, 1);

      for (gint64 client = 0; client < 20; client++)
        ASSERT_EQ (from.push ("client" + std::to_string (client), 7, client + 1, tenant),
                   TPS_PUSH_NEW);
      to.import (from);
      for (int client = 0; client < 20; client++)
        {
          std::string name = "client" + std::to_string (client);
          g_autoptr (GError) error = nullptr;
          gint64 answer;
          TpsPushVerdict verdict = to.begin (name, 7, &answer, &error);

          EXPECT_TRUE (verdict == TPS_PUSH_REPEAT
                       || g_error_matches (error, TPS_ERROR, TPS_ERROR_STALE))
              << name << ": " << (error != nullptr ? error->message : "new");
        }
      EXPECT_EQ (to.push ("new", 1, 21, tenant), TPS_PUSH_REFUSED);
      EXPECT_EQ (to.push ("client3", 8, 22, tenant), TPS_PUSH_NEW);
    }
}

/* Floors must expire at the same times as before the export, whose order is different. */
TEST (PushIds, ExpireAfterAnImportAsBefore)
{
  Window from (1, 100), to (2, 100);

  for (now_ns = 0; now_ns < 100; now_ns += 10) /* clients 0 to 8 get floors */
    from.push ("client" + std::to_string (now_ns / 10), 7, 1);
  now_ns = 900;
  EXPECT_EQ (from.ask ("client0", 7), TPS_PUSH_REFUSED); /* expires last now, at 1900 */
  to.import (from);
  EXPECT_EQ (to.count_floors (), 9u);
  for (gsize n_expired = 1; n_expired <= 8; n_expired++)
    {
      now_ns = 999 + static_cast<gint64> (n_expired) * 10;
      EXPECT_EQ (to.ask ("other", 1), TPS_PUSH_NEW);
      EXPECT_EQ (to.count_floors (), 10 - n_expired) << now_ns;
      now_ns++; /* 1000 after the last push of client `n_expired` */
      EXPECT_EQ (to.ask ("other", 1), TPS_PUSH_NEW);
      EXPECT_EQ (to.count_floors (), 9 - n_expired) << now_ns;
    }
  now_ns = 0;
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
  ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len, &n_used, nullptr));
  for (int client = 0; client < 1000; client++)
    {
      std::string name = "client" + std::to_string (client);

      ASSERT_EQ (to.begin (name, 10, &answer), TPS_PUSH_REPEAT);
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
  ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len - 1, &n_used, nullptr));
  EXPECT_EQ (n_used, 0u); /* an incomplete record: the rest may follow */
  for (gsize at : { gsize { 56 }, gsize { 80 }, gsize { records->len - 24 } })
    {
      Window other;
      gint64 lsn, bad = (gint64 { 1 } << 62) + 1;

      memcpy (&lsn, records->data + at, sizeof lsn);
      memcpy (records->data + at, &bad, sizeof bad);
      EXPECT_FALSE (
          tps_push_export_read (other.window, records->data, records->len, &n_used, nullptr))
          << "an LSN at " << at;
      memcpy (records->data + at, &lsn, sizeof lsn);
    }
  records->data[0] = 7;
  EXPECT_FALSE (tps_push_export_read (to.window, records->data, records->len, &n_used, nullptr));
  EXPECT_EQ (to.ask ("client", 1), TPS_PUSH_NEW);
  g_byte_array_unref (records);
}

} // namespace
