/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/status_line.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/base/sync.h"

#define TERMINAL_INTERVAL_NS G_GINT64_CONSTANT (200000000)
#define FILE_INTERVAL_NS G_GINT64_CONSTANT (5000000000)

static void
wait_from (TpsStatusLine *line, gint64 now_ns)
{
  line->next_ns = now_ns + (line->is_terminal ? TERMINAL_INTERVAL_NS : FILE_INTERVAL_NS);
}

void
tps_status_line_init (TpsStatusLine *line)
{
  *line = (TpsStatusLine) { .is_terminal = isatty (STDERR_FILENO) };
  wait_from (line, tps_clock_now_ns ());
}

gboolean
tps_status_line_is_due (TpsStatusLine *line)
{
  return tps_clock_now_ns () >= line->next_ns;
}

void
tps_status_line_show (TpsStatusLine *line, const gchar *text)
{
  wait_from (line, tps_clock_now_ns ());
  line->shown = TRUE;
  fprintf (stderr, line->is_terminal ? "\r%s\033[K" : "%s\n", text);
  fflush (stderr);
}

void
tps_status_line_end (TpsStatusLine *line)
{
  if (line->shown && line->is_terminal)
    fputs ("\r\033[K", stderr);
}
