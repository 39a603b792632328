/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace_sinks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PLAIN_PUNCTUATION "_.:/@%+,-"

/* ---- text ----------------------------------------------------------------------------------- */

/* Returns TRUE if a text needs no quotes. */
static gboolean
is_plain (const gchar *text)
{
  if (*text == '\0')
    return FALSE;
  for (; *text != '\0'; text++)
    if (!g_ascii_isalnum (*text) && strchr (PLAIN_PUNCTUATION, *text) == NULL)
      return FALSE;
  return TRUE;
}

/* Appends the first character of `*text`, escaped if necessary, and moves `*text` to the next
 * one. */
static void
append_character (GString *line, const gchar **text)
{
  gunichar character = g_utf8_get_char_validated (*text, -1);
  gboolean is_utf8 = character != (gunichar) -1 && character != (gunichar) -2;

  if (!is_utf8 || character < 0x20 || character == 0x7f)
    g_string_append_printf (line, "\\x%02x", (guint) (guchar) * *text);
  else if (character == '"' || character == '\\')
    g_string_append_printf (line, "\\%c", (gchar) character);
  else if (character == ' ' || (g_unichar_isgraph (character) && !g_unichar_isspace (character)))
    g_string_append_unichar (line, character);
  else
    g_string_append_printf (line, "\\u{%x}", character);
  *text += is_utf8 ? g_utf8_skip[(guchar) * *text] : 1;
}

static void
append_text (GString *line, const gchar *text)
{
  if (is_plain (text))
    {
      g_string_append (line, text);
      return;
    }
  g_string_append_c (line, '"');
  while (*text != '\0')
    append_character (line, &text);
  g_string_append_c (line, '"');
}

gchar *
tps_trace_field_to_text (const TpsTraceField *field)
{
  gchar real[G_ASCII_DTOSTR_BUF_SIZE];

  switch (field->kind)
    {
    case TPS_FIELD_INT:
      return g_strdup_printf ("%" G_GINT64_FORMAT, field->value.integer);
    case TPS_FIELD_UINT:
      return g_strdup_printf ("%" G_GUINT64_FORMAT, field->value.count);
    case TPS_FIELD_REAL:
      return g_strdup (g_ascii_formatd (real, sizeof real, "%.6g", field->value.real));
    case TPS_FIELD_BOOL:
      return g_strdup (field->value.flag ? "true" : "false");
    case TPS_FIELD_TEXT:
      break;
    }
  return g_strdup (field->value.text);
}

void
tps_trace_append_text (const TpsTraceRecord *record, GString *line)
{
  g_string_append (line, record->event);
  for (guint i = 0; i < record->n_fields; i++)
    {
      g_autofree gchar *value = tps_trace_field_to_text (&record->fields[i]);

      g_string_append_printf (line, " %s=", record->fields[i].key);
      append_text (line, value);
    }
  if (record->n_suppressed > 0)
    g_string_append_printf (line, " suppressed=%" G_GUINT64_FORMAT, record->n_suppressed);
}

void
tps_trace_append_line (const TpsTraceRecord *record, GString *line)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (record->time_us / G_USEC_PER_SEC);
  g_autofree gchar *seconds = g_date_time_format (time, "%Y-%m-%dT%H:%M:%S");
  g_autofree gchar *level = g_ascii_strup (tps_trace_level_name (record->level), -1);

  g_string_append_printf (line, "%s.%03dZ %s ", seconds,
                          (gint) (record->time_us % G_USEC_PER_SEC / 1000), level);
  tps_trace_append_text (record, line);
}

/* ---- sinks ---------------------------------------------------------------------------------- */

gint
tps_trace_get_priority (TpsTraceLevel level)
{
  static const gint priorities[] = {
    [TPS_TRACE_ERROR] = 3,
    [TPS_TRACE_WARNING] = 4,
    [TPS_TRACE_INFO] = 6,
    [TPS_TRACE_DEBUG] = 7,
  };

  return priorities[level];
}

void
tps_trace_write_line (gint fd, const gchar *bytes, gsize n_bytes)
{
  while (n_bytes > 0)
    {
      gssize n = write (fd, bytes, n_bytes);
      GPollFD ready = { .fd = fd, .events = G_IO_OUT };

      if (n >= 0)
        {
          bytes += n;
          n_bytes -= (gsize) n;
        }
      else if (errno == EAGAIN)
        g_poll (&ready, 1, -1);
      else if (errno != EINTR)
        return;
    }
}

void
tps_trace_glib_sink (const TpsTraceRecord *record, gpointer user_data)
{
  const gchar priority[] = { (gchar) ('0' + tps_trace_get_priority (record->level)), '\0' };
  g_autoptr (GString) message = g_string_new (NULL);
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  GLogField fields[4 + TPS_TRACE_MAX_FIELDS] = {
    { "MESSAGE", NULL, -1 },
    { "PRIORITY", priority, -1 },
    { "GLIB_DOMAIN", "thriftps", -1 },
    { "EVENT", record->event, -1 },
  };

  tps_trace_append_text (record, message);
  fields[0].value = message->str;
  for (guint i = 0; i < record->n_fields; i++)
    {
      g_autofree gchar *key = g_ascii_strup (record->fields[i].key, -1);
      gchar *name = g_strconcat ("THRIFTPS_", key, NULL);
      gchar *value = tps_trace_field_to_text (&record->fields[i]);

      g_ptr_array_add (texts, name);
      g_ptr_array_add (texts, value);
      fields[4 + i] = (GLogField) { name, value, -1 };
    }
  /* The level is constant, so that no record can end a host (see the header). */
  g_log_structured_array (G_LOG_LEVEL_MESSAGE, fields, 4 + record->n_fields);
}
