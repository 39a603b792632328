/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_layout.h"

#include <string.h>

#define N_DIGITS 20

static gchar *
make_name (guint64 number, const gchar *suffix)
{
  return g_strdup_printf ("%0*" G_GUINT64_FORMAT "%s", N_DIGITS, number, suffix);
}

static guint64
parse_name (const gchar *name, const gchar *suffix)
{
  guint64 number;

  if (strlen (name) != N_DIGITS + strlen (suffix) || strcmp (name + N_DIGITS, suffix) != 0
      || strspn (name, "0123456789") != N_DIGITS)
    return 0;
  number = g_ascii_strtoull (name, NULL, 10);
  return number < G_MAXUINT64 ? number : 0;
}

gchar *
tps_log_segment_name (guint64 number)
{
  return make_name (number, TPS_LOG_SUFFIX);
}

guint64
tps_log_segment_number (const gchar *name)
{
  return parse_name (name, TPS_LOG_SUFFIX);
}

gchar *
tps_log_old_segment_name (guint64 number)
{
  return make_name (number, TPS_LOG_OLD_SUFFIX);
}

guint64
tps_log_old_segment_number (const gchar *name)
{
  return parse_name (name, TPS_LOG_OLD_SUFFIX);
}
