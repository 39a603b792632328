/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace_json.h"

#include <math.h>

#define NOT_UTF8 0xfffd
#define LAST_OF_PLANE_0 0xffff

/* ---- values --------------------------------------------------------------------------------- */

/* Appends an escaped character. JSON writes a character outside plane 0 as a pair of surrogates. */
static void
append_escaped (GString *line, gunichar character)
{
  if (character <= LAST_OF_PLANE_0)
    g_string_append_printf (line, "\\u%04x", character);
  else
    g_string_append_printf (line, "\\u%04x\\u%04x", 0xd800 + ((character - 0x10000) >> 10),
                            0xdc00 + ((character - 0x10000) & 0x3ff));
}

/* Appends a character, escaped unless it prints. */
static void
append_character (GString *line, gunichar character)
{
  if (character == '"' || character == '\\')
    g_string_append_printf (line, "\\%c", (gchar) character);
  else if (character == '\n')
    g_string_append (line, "\\n");
  else if (character == '\t')
    g_string_append (line, "\\t");
  else if (character == ' ' || (g_unichar_isgraph (character) && !g_unichar_isspace (character)))
    g_string_append_unichar (line, character);
  else
    append_escaped (line, character);
}

/* Appends a string. A byte that is not UTF-8 becomes U+FFFD. */
static void
append_text (GString *line, const gchar *text)
{
  g_string_append_c (line, '"');
  while (*text != '\0')
    {
      gunichar character = g_utf8_get_char_validated (text, -1);
      gboolean is_utf8 = character != (gunichar) -1 && character != (gunichar) -2;

      append_character (line, is_utf8 ? character : NOT_UTF8);
      text += is_utf8 ? g_utf8_skip[(guchar) *text] : 1;
    }
  g_string_append_c (line, '"');
}

static void
append_real (GString *line, gdouble real)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (line, isfinite (real) ? g_ascii_dtostr (text, sizeof text, real) : "null");
}

static void
append_value (GString *line, const TpsTraceField *field)
{
  switch (field->kind)
    {
    case TPS_FIELD_TEXT:
      append_text (line, field->value.text);
      break;
    case TPS_FIELD_INT:
      g_string_append_printf (line, "%" G_GINT64_FORMAT, field->value.integer);
      break;
    case TPS_FIELD_UINT:
      g_string_append_printf (line, "%" G_GUINT64_FORMAT, field->value.count);
      break;
    case TPS_FIELD_REAL:
      append_real (line, field->value.real);
      break;
    case TPS_FIELD_BOOL:
      g_string_append (line, field->value.flag ? "true" : "false");
      break;
    }
}

/* ---- the object ----------------------------------------------------------------------------- */

static void
append_time (GString *line, gint64 time_us)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (time_us / G_USEC_PER_SEC);
  g_autofree gchar *seconds = g_date_time_format (time, "%Y-%m-%dT%H:%M:%S");

  g_string_append_printf (line, "{\"time\":\"%s.%06dZ\"", seconds,
                          (gint) (time_us % G_USEC_PER_SEC));
}

/* Appends a member with a text; nothing if the text is NULL. */
static void
append_member (GString *line, const gchar *key, const gchar *text)
{
  if (text == NULL)
    return;
  g_string_append_printf (line, ",\"%s\":", key);
  append_text (line, text);
}

/* Appends the area of a record, which is the folder of its source file. */
static void
append_area (GString *line, const gchar *file)
{
  g_autofree gchar *folder = file != NULL ? g_path_get_dirname (file) : NULL;

  append_member (line, "area", folder);
}

static void
append_origin (GString *line, const TpsTraceOrigin *origin)
{
  append_member (line, "process", origin->process);
  if (origin->pid != 0)
    g_string_append_printf (line, ",\"pid\":%" G_GINT64_FORMAT, origin->pid);
  append_member (line, "host", origin->host);
  append_member (line, "node", origin->node);
}

static void
append_fields (GString *line, const TpsTraceRecord *record)
{
  g_string_append (line, ",\"fields\":{");
  for (guint i = 0; i < record->n_fields; i++)
    {
      if (i > 0)
        g_string_append_c (line, ',');
      append_text (line, record->fields[i].key);
      g_string_append_c (line, ':');
      append_value (line, &record->fields[i]);
    }
  g_string_append_c (line, '}');
}

void
tps_trace_append_json (const TpsTraceRecord *record, const TpsTraceOrigin *origin, GString *line)
{
  append_time (line, record->time_us);
  g_string_append_printf (line, ",\"sequence\":%" G_GUINT64_FORMAT, record->sequence);
  append_member (line, "level", tps_trace_level_name (record->level));
  append_member (line, "event", record->event);
  append_area (line, record->file);
  if (origin != NULL)
    append_origin (line, origin);
  append_fields (line, record);
  if (record->n_suppressed > 0)
    g_string_append_printf (line, ",\"suppressed\":%" G_GUINT64_FORMAT, record->n_suppressed);
  g_string_append_c (line, '}');
}
