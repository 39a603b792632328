/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/batch_update/log.h"

#include <string.h>
#include <unistd.h>

void
tps_batch_update_log (const gchar *format, ...)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree gchar *time = g_date_time_format (now, "%H:%M:%S");
  g_autofree gchar *text = NULL;
  g_autofree gchar *line = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  line = g_strdup_printf ("%s %s\n", time, text);
  if (write (STDERR_FILENO, line, strlen (line)) < 0)
    return; /* nothing reads the log any more */
}
