/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/operations/scraper.h"

#include <libsoup/soup.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SLICE_US 5000 /* part of a pause; the thread checks for the end after each part */

/* A scraper. Its thread owns `ms`, `n_series` and `error` until the thread has ended. */
struct TpsScraper
{
  gchar *url;
  gchar *authorization;
  gint interval_ms;
  TpsThread thread;
  atomic_bool is_over;
  GArray *ms;
  guint n_series;
  GError *error;
};

static guint
count_series (GBytes *body)
{
  gsize n_bytes;
  const gchar *text = g_bytes_get_data (body, &n_bytes);
  const gchar *end = text + n_bytes;
  guint n = 0;

  while (text < end)
    {
      const gchar *line = text;

      n += *line != '#' && *line != '\n';
      text = memchr (line, '\n', (gsize) (end - line));
      text = text != NULL ? text + 1 : end;
    }
  return n;
}

static gboolean
scrape (TpsScraper *scraper, SoupSession *session)
{
  g_autoptr (SoupMessage) message = soup_message_new ("GET", scraper->url);
  gint64 start_ns = tps_clock_now_ns ();
  g_autoptr (GBytes) body = NULL;
  gdouble took_ms;

  soup_message_headers_append (soup_message_get_request_headers (message), "Authorization",
                               scraper->authorization);
  body = soup_session_send_and_read (session, message, NULL, &scraper->error);
  if (body == NULL)
    return FALSE;
  took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
  if (soup_message_get_status (message) != SOUP_STATUS_OK)
    {
      g_set_error (&scraper->error, TPS_ERROR, TPS_ERROR_ABORTED, "%s: status %u", scraper->url,
                   soup_message_get_status (message));
      return FALSE;
    }
  g_array_append_val (scraper->ms, took_ms);
  scraper->n_series = count_series (body);
  return TRUE;
}

static void
pause_until (const TpsScraper *scraper, gint64 time_ns)
{
  while (!atomic_load (&scraper->is_over) && tps_clock_now_ns () < time_ns)
    g_usleep (SLICE_US);
}

static gpointer
run (gpointer data)
{
  TpsScraper *scraper = data;
  GMainContext *context = g_main_context_new ();
  SoupSession *session;

  g_main_context_push_thread_default (context);
  session = soup_session_new_with_options ("proxy-resolver", NULL, NULL);
  while (!atomic_load (&scraper->is_over))
    {
      gint64 next_ns = tps_clock_now_ns () + scraper->interval_ms * G_GINT64_CONSTANT (1000000);

      if (!scrape (scraper, session))
        break;
      pause_until (scraper, next_ns);
    }
  g_object_unref (session);
  g_main_context_pop_thread_default (context);
  g_main_context_unref (context);
  return NULL;
}

TpsScraper *
tps_scraper_start (const gchar *url, const gchar *token, gint interval_ms)
{
  TpsScraper *scraper = g_new0 (TpsScraper, 1);

  scraper->url = g_strconcat (url, "/metrics", NULL);
  scraper->authorization = g_strconcat ("Bearer ", token, NULL);
  scraper->interval_ms = interval_ms;
  scraper->ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  tps_sync_check (pthread_create (&scraper->thread, NULL, run, scraper));
  return scraper;
}

gboolean
tps_scraper_stop (TpsScraper *scraper, GArray *ms, guint *n_series, GError **error)
{
  gboolean ok;

  atomic_store (&scraper->is_over, TRUE);
  tps_sync_check (pthread_join (scraper->thread, NULL));
  ok = scraper->error == NULL;
  if (ok)
    g_array_append_vals (ms, scraper->ms->data, scraper->ms->len);
  else
    g_propagate_error (error, scraper->error);
  *n_series = scraper->n_series;
  g_array_unref (scraper->ms);
  g_free (scraper->authorization);
  g_free (scraper->url);
  g_free (scraper);
  return ok;
}
