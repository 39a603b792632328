/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/json_writer.h"

#include <math.h>
#include <string.h>

#define NOT_UTF8 0xfffd
#define LAST_OF_PLANE_0 0xffff

void
tps_json_writer_init (TpsJsonWriter *json)
{
  *json = (TpsJsonWriter) { .text = g_string_new (NULL) };
}

GString *
tps_json_writer_take (TpsJsonWriter *json)
{
  return g_steal_pointer (&json->text);
}

/* Writes the comma and the name before a value. `name` is NULL if the value has none. */
static void
begin_value (TpsJsonWriter *json, const gchar *name)
{
  if (json->needs_comma)
    g_string_append_c (json->text, ',');
  json->needs_comma = TRUE;
  if (name == NULL)
    return;
  g_string_append_c (json->text, '"');
  g_string_append (json->text, name);
  g_string_append (json->text, "\":");
}

void
tps_json_open (TpsJsonWriter *json, const gchar *name, gchar bracket)
{
  begin_value (json, name);
  g_string_append_c (json->text, bracket);
  json->needs_comma = FALSE;
}

void
tps_json_close (TpsJsonWriter *json, gchar bracket)
{
  g_string_append_c (json->text, bracket);
  json->needs_comma = TRUE;
}

/* Appends a character, escaped unless it prints. JSON writes a character outside plane 0 as a pair
 * of surrogates. */
static void
append_character (GString *text, gunichar character)
{
  if (character == '"' || character == '\\')
    g_string_append_printf (text, "\\%c", (gchar) character);
  else if (character == ' ' || (g_unichar_isgraph (character) && !g_unichar_isspace (character)))
    g_string_append_unichar (text, character);
  else if (character <= LAST_OF_PLANE_0)
    g_string_append_printf (text, "\\u%04x", character);
  else
    g_string_append_printf (text, "\\u%04x\\u%04x", 0xd800 + ((character - 0x10000) >> 10),
                            0xdc00 + ((character - 0x10000) & 0x3ff));
}

void
tps_json_add_text (TpsJsonWriter *json, const gchar *name, const gchar *value)
{
  if (value == NULL)
    {
      tps_json_add_null (json, name);
      return;
    }
  begin_value (json, name);
  g_string_append_c (json->text, '"');
  while (*value != '\0')
    {
      gunichar character = g_utf8_get_char_validated (value, -1);
      gboolean is_utf8 = character != (gunichar) -1 && character != (gunichar) -2;

      append_character (json->text, is_utf8 ? character : NOT_UTF8);
      value += is_utf8 ? g_utf8_skip[(guchar) *value] : 1;
    }
  g_string_append_c (json->text, '"');
}

void
tps_json_add_int (TpsJsonWriter *json, const gchar *name, gint64 value)
{
  begin_value (json, name);
  g_string_append_printf (json->text, "%" G_GINT64_FORMAT, value);
}

void
tps_json_add_uint (TpsJsonWriter *json, const gchar *name, guint64 value)
{
  begin_value (json, name);
  g_string_append_printf (json->text, "%" G_GUINT64_FORMAT, value);
}

void
tps_json_add_real (TpsJsonWriter *json, const gchar *name, gdouble value, guint n_decimals)
{
  gchar format[8], number[352]; /* the longest double has 309 digits before the point */
  gsize n;

  if (!isfinite (value))
    {
      tps_json_add_null (json, name);
      return;
    }
  begin_value (json, name);
  g_snprintf (format, sizeof format, "%%.%uf", MIN (n_decimals, 9));
  g_ascii_formatd (number, sizeof number, format, value);
  n = strlen (number);
  /* Removes trailing zeros, except the first digit after the point. */
  while (n_decimals > 0 && n > 2 && number[n - 1] == '0' && number[n - 2] != '.')
    n--;
  g_string_append_len (json->text, number, (gssize) n);
}

void
tps_json_add_double (TpsJsonWriter *json, const gchar *name, gdouble value)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  if (!isfinite (value))
    {
      tps_json_add_null (json, name);
      return;
    }
  begin_value (json, name);
  g_string_append (json->text, g_ascii_dtostr (text, sizeof text, value));
}

void
tps_json_add_unbounded (TpsJsonWriter *json, const gchar *name, gdouble value)
{
  if (!isinf (value))
    {
      tps_json_add_double (json, name, value);
      return;
    }
  begin_value (json, name);
  g_string_append (json->text, value > 0 ? "1e999" : "-1e999");
}

void
tps_json_add_bool (TpsJsonWriter *json, const gchar *name, gboolean value)
{
  begin_value (json, name);
  g_string_append (json->text, value ? "true" : "false");
}

void
tps_json_add_null (TpsJsonWriter *json, const gchar *name)
{
  begin_value (json, name);
  g_string_append (json->text, "null");
}

void
tps_json_add_seconds (TpsJsonWriter *json, const gchar *name, gint64 duration_ns)
{
  tps_json_add_real (json, name, (gdouble) duration_ns / 1e9, 3);
}

void
tps_json_add_time (TpsJsonWriter *json, const gchar *name, gint64 real_us)
{
  tps_json_add_real (json, name, (gdouble) real_us / 1e6, 3);
}

gboolean
tps_json_has_more_brackets (const gchar *json, guint max)
{
  guint n = 0;

  for (; *json != '\0' && n <= max; json++)
    n += *json == '[' || *json == '{';
  return n > max;
}
