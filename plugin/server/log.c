/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/sync.h"

/* A pipe that is writable takes this much without blocking (PIPE_BUF). */
#define MAX_LINE_BYTES 1024

static const gchar *const level_names[] = {
  [TPS_LOG_ERROR] = "error",
  [TPS_LOG_WARNING] = "warning",
  [TPS_LOG_INFO] = "info",
  [TPS_LOG_DEBUG] = "debug",
};

static atomic_int max_level = TPS_LOG_WARNING;
static TpsMutex rate_lock = TPS_MUTEX_INIT;
static TpsLogRate line_rate; /* under rate_lock */

void
tps_log_set_level (TpsLogLevel level)
{
  atomic_store_explicit (&max_level, (gint) level, memory_order_relaxed);
}

gboolean
tps_log_parse_level (const gchar *text, TpsLogLevel *level)
{
  for (guint i = TPS_LOG_ERROR; i <= TPS_LOG_DEBUG; i++)
    if (strcmp (text, level_names[i]) == 0)
      {
        *level = (TpsLogLevel) i;
        return TRUE;
      }
  return FALSE;
}

gboolean
tps_log_rate_take (TpsLogRate *rate, gint64 now_ns)
{
  gdouble elapsed_s = (gdouble) (now_ns - rate->last_ns) / 1e9;

  rate->n_used = MAX (0, rate->n_used - elapsed_s * TPS_LOG_PER_SECOND);
  rate->last_ns = now_ns;
  if (rate->n_used + 1 > TPS_LOG_BURST)
    {
      rate->n_dropped++;
      return FALSE;
    }
  rate->n_used += 1;
  return TRUE;
}

/* Asking first, since making stderr non-blocking would change it for every process that shares it. */
gboolean
tps_log_write_some (gint fd, const gchar *line, gsize n_bytes)
{
  struct pollfd ready = { .fd = fd, .events = POLLOUT };

  return poll (&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0
         && write (fd, line, n_bytes) == (gssize) n_bytes;
}

static gboolean
take_token (guint64 *n_dropped)
{
  gboolean taken;

  tps_mutex_lock (&rate_lock);
  taken = tps_log_rate_take (&line_rate, tps_clock_now_ns ());
  *n_dropped = line_rate.n_dropped;
  if (taken)
    line_rate.n_dropped = 0;
  tps_mutex_unlock (&rate_lock);
  return taken;
}

static void
count_dropped (guint64 n_lines)
{
  tps_mutex_lock (&rate_lock);
  line_rate.n_dropped += n_lines;
  tps_mutex_unlock (&rate_lock);
}

/* "2026-11-20 12:00:00.000 warning: ", cut to `size`. */
static gsize
write_head (gchar *line, gsize size, TpsLogLevel level, guint64 n_dropped)
{
  struct timespec now;
  struct tm parts;
  gsize n_bytes;

  clock_gettime (CLOCK_REALTIME, &now);
  gmtime_r (&now.tv_sec, &parts);
  n_bytes = strftime (line, size, "%Y-%m-%dT%H:%M:%S", &parts);
  n_bytes += (gsize) g_snprintf (line + n_bytes, size - n_bytes,
                                 ".%03ldZ thriftps %s: ", now.tv_nsec / 1000000,
                                 level_names[level]);
  if (n_dropped > 0)
    n_bytes += (gsize) g_snprintf (line + n_bytes, size - n_bytes,
                                   "[%" G_GUINT64_FORMAT " lines dropped] ", n_dropped);
  return n_bytes;
}

static gsize
finish_line (gchar *line, gsize start, gsize n_bytes)
{
  for (gsize i = start; i < n_bytes; i++)
    if ((guchar) line[i] < ' ' || line[i] == 0x7f)
      line[i] = '?';
  line[n_bytes] = '\n';
  return n_bytes + 1;
}

void
tps_log (TpsLogLevel level, const gchar *format, ...)
{
  gchar line[MAX_LINE_BYTES];
  gsize n_head;
  guint64 n_dropped;
  gint n_text;
  va_list args;

  if ((gint) level > atomic_load_explicit (&max_level, memory_order_relaxed)
      || !take_token (&n_dropped))
    return;
  n_head = write_head (line, sizeof line - 1, level, n_dropped);
  va_start (args, format);
  n_text = g_vsnprintf (line + n_head, sizeof line - 1 - n_head, format, args);
  va_end (args);
  n_text = CLAMP (n_text, 0, (gint) (sizeof line - 2 - n_head));
  if (!tps_log_write_some (STDERR_FILENO, line,
                           finish_line (line, n_head, n_head + (gsize) n_text)))
    count_dropped (n_dropped + 1);
}
