/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/label_text.h"

#include <string.h>

/* A character that the truncation cuts is replaced, like other bytes that are not UTF-8. */
gchar *
tps_label_dup_value (const gchar *value)
{
  const gchar *text = value != NULL ? value : "";

  return g_utf8_make_valid (text, (gssize) strnlen (text, TPS_LABEL_MAX_BYTES));
}

static void
append_escaped (GString *text, const gchar *value)
{
  for (; *value != '\0'; value++)
    switch (*value)
      {
      case '\\':
        g_string_append (text, "\\\\");
        break;
      case '"':
        g_string_append (text, "\\\"");
        break;
      case '\n':
        g_string_append (text, "\\n");
        break;
      default:
        g_string_append_c (text, *value);
      }
}

gchar *
tps_label_text_new (const TpsFamily *family, const gchar *const *values)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < TPS_MAX_LABELS && family->labels[i] != NULL; i++)
    {
      g_autofree gchar *value = tps_label_dup_value (values[i]);

      if (i > 0)
        g_string_append_c (text, ',');
      g_string_append (text, family->labels[i]);
      g_string_append (text, "=\"");
      append_escaped (text, value);
      g_string_append_c (text, '"');
    }
  return g_string_free (text, FALSE);
}
