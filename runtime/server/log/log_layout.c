/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_layout.h"

#include <string.h>

#define N_DIGITS 20

void
tps_log_id_draw (TpsLogId *id)
{
  for (gsize i = 0; i < sizeof id->bytes; i++)
    id->bytes[i] = (guint8) g_random_int_range (0, 256);
}

gchar *
tps_log_id_to_text (const TpsLogId *id)
{
  GString *text = g_string_sized_new (TPS_LOG_ID_DIGITS);

  for (gsize i = 0; i < sizeof id->bytes; i++)
    g_string_append_printf (text, "%02x", id->bytes[i]);
  return g_string_free (text, FALSE);
}

gboolean
tps_log_id_parse (const gchar *text, TpsLogId *id)
{
  if (strlen (text) != TPS_LOG_ID_DIGITS || strspn (text, "0123456789abcdef") != TPS_LOG_ID_DIGITS)
    return FALSE;
  for (gsize i = 0; i < sizeof id->bytes; i++)
    id->bytes[i] = (guint8) (g_ascii_xdigit_value (text[2 * i]) << 4
                             | g_ascii_xdigit_value (text[2 * i + 1]));
  return TRUE;
}

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
