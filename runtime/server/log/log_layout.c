/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_layout.h"

#include <string.h>

#define N_DIGITS 20

gchar *
tps_log_segment_name (guint64 number)
{
  return g_strdup_printf ("%0*" G_GUINT64_FORMAT TPS_LOG_SUFFIX, N_DIGITS, number);
}

guint64
tps_log_segment_number (const gchar *name)
{
  guint64 number;

  if (strlen (name) != N_DIGITS + strlen (TPS_LOG_SUFFIX)
      || strcmp (name + N_DIGITS, TPS_LOG_SUFFIX) != 0 || strspn (name, "0123456789") != N_DIGITS)
    return 0;
  number = g_ascii_strtoull (name, NULL, 10);
  return number < G_MAXUINT64 ? number : 0; /* G_MAXUINT64 = an overflow */
}
