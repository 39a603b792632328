/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/json_reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

#define MAX_NUMBER 64 /* characters */

void
tps_json_reader_init (TpsJsonReader *json, const gchar *text, gsize n_bytes)
{
  *json = (TpsJsonReader) { .text = text, .n_bytes = n_bytes };
}

void
tps_json_fail (TpsJsonReader *json, const gchar *problem)
{
  if (json->problem == NULL)
    json->problem = problem;
}

/* Skips blanks, and returns the next character; 0 at the end of the text or after an error. */
static gchar
peek (TpsJsonReader *json)
{
  if (json->problem != NULL)
    return 0;
  while (json->at < json->n_bytes && json->text[json->at] != '\0'
         && strchr (" \t\r\n", json->text[json->at]) != NULL)
    json->at++;
  return json->at < json->n_bytes ? json->text[json->at] : 0;
}

static gboolean
take (TpsJsonReader *json, gchar wanted, const gchar *problem)
{
  if (peek (json) != wanted)
    {
      tps_json_fail (json, problem);
      return FALSE;
    }
  json->at++;
  return TRUE;
}

/* ---- objects and arrays ---------------------------------------------------------------------- */

static void
begin (TpsJsonReader *json, gchar opening, const gchar *problem)
{
  if (!take (json, opening, problem))
    return;
  if (json->depth == TPS_JSON_MAX_DEPTH)
    {
      tps_json_fail (json, "values are nested too deeply");
      return;
    }
  json->depth++;
  json->is_first = TRUE;
}

static gboolean
has_next (TpsJsonReader *json, gchar closing)
{
  gboolean is_first = json->is_first;
  gchar next = peek (json);

  json->is_first = FALSE;
  if (json->problem != NULL)
    return FALSE;
  if (next == closing)
    {
      json->at++;
      json->depth--;
      return FALSE;
    }
  return is_first || take (json, ',', "expected a comma or the end of the list");
}

void
tps_json_begin_object (TpsJsonReader *json)
{
  begin (json, '{', "expected an object");
}

gboolean
tps_json_next_member (TpsJsonReader *json, GString *key)
{
  if (!has_next (json, '}'))
    return FALSE;
  tps_json_read_string (json, key);
  return take (json, ':', "expected a colon");
}

void
tps_json_begin_array (TpsJsonReader *json)
{
  begin (json, '[', "expected an array");
}

gboolean
tps_json_next_element (TpsJsonReader *json)
{
  return has_next (json, ']');
}

/* ---- strings --------------------------------------------------------------------------------- */

static gunichar
read_hex4 (TpsJsonReader *json)
{
  gunichar unit = 0;

  for (guint i = 0; i < 4; i++)
    {
      gint digit = json->at < json->n_bytes ? g_ascii_xdigit_value (json->text[json->at]) : -1;

      if (digit < 0)
        {
          tps_json_fail (json, "expected four hexadecimal digits");
          return 0;
        }
      unit = unit * 16 + (gunichar) digit;
      json->at++;
    }
  return unit;
}

static gunichar
read_escaped_unichar (TpsJsonReader *json)
{
  gunichar high = read_hex4 (json);
  gunichar low;

  if (high < 0xD800 || high > 0xDFFF)
    return high;
  if (high > 0xDBFF || json->n_bytes - json->at < 2
      || strncmp (json->text + json->at, "\\u", 2) != 0)
    {
      tps_json_fail (json, "half of a surrogate pair");
      return 0;
    }
  json->at += 2;
  low = read_hex4 (json);
  if (low < 0xDC00 || low > 0xDFFF)
    tps_json_fail (json, "half of a surrogate pair");
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

static void
read_escape (TpsJsonReader *json, GString *value)
{
  static const gchar letters[] = "\"\\/bfnrt";
  static const gchar meanings[] = "\"\\/\b\f\n\r\t";
  gchar letter = json->at < json->n_bytes ? json->text[json->at] : 0;
  const gchar *found = letter != 0 ? strchr (letters, letter) : NULL;
  gunichar unichar;

  json->at++;
  if (found != NULL)
    {
      g_string_append_c (value, meanings[found - letters]);
      return;
    }
  unichar = letter == 'u' ? read_escaped_unichar (json) : 0;
  if (json->problem != NULL)
    return;
  if (unichar == 0) /* U+0000 would end a C string */
    tps_json_fail (json, "an escape that is not allowed");
  else
    g_string_append_unichar (value, unichar);
}

void
tps_json_read_string (TpsJsonReader *json, GString *value)
{
  g_string_truncate (value, 0);
  if (!take (json, '"', "expected a string"))
    return;
  while (json->problem == NULL && json->at < json->n_bytes)
    {
      gchar c = json->text[json->at++];

      if (c == '"')
        {
          if (!g_utf8_validate (value->str, (gssize) value->len, NULL))
            tps_json_fail (json, "a string is not UTF-8");
          return;
        }
      if (c == '\\')
        read_escape (json, value);
      else if ((guchar) c < 0x20)
        tps_json_fail (json, "a control character in a string");
      else
        g_string_append_c (value, c);
    }
  tps_json_fail (json, "a string has no end");
}

/* ---- numbers and other values ---------------------------------------------------------------- */

static gboolean
take_number (TpsJsonReader *json, gchar *number)
{
  gsize n = 0;

  peek (json);
  while (json->problem == NULL && json->at < json->n_bytes && n < MAX_NUMBER - 1
         && json->text[json->at] != '\0'
         && strchr ("0123456789+-.eE", json->text[json->at]) != NULL)
    number[n++] = json->text[json->at++];
  number[n] = '\0';
  if (n == 0 || !(g_ascii_isdigit (number[0]) || number[0] == '-'))
    tps_json_fail (json, "expected a number");
  return json->problem == NULL;
}

gint64
tps_json_read_i64 (TpsJsonReader *json)
{
  gchar number[MAX_NUMBER];
  gchar *end;
  gint64 value;

  if (!take_number (json, number))
    return 0;
  errno = 0;
  value = g_ascii_strtoll (number, &end, 10);
  if (errno == 0 && *end == '\0')
    return value;
  tps_json_fail (json, "expected an integer of 64 bits");
  return 0;
}

gdouble
tps_json_read_double (TpsJsonReader *json)
{
  gchar number[MAX_NUMBER];
  gchar *end;
  gdouble value;

  if (!take_number (json, number))
    return 0;
  value = g_ascii_strtod (number, &end);
  if (*end == '\0')
    return value;
  tps_json_fail (json, "expected a number");
  return 0;
}

static gboolean
take_word (TpsJsonReader *json, const gchar *word)
{
  gsize n = strlen (word);

  peek (json);
  if (json->problem != NULL || json->n_bytes - json->at < n
      || strncmp (json->text + json->at, word, n) != 0)
    return FALSE;
  json->at += n;
  return TRUE;
}

/* TPS_JSON_MAX_DEPTH bounds the recursion. */
static void
skip_value (TpsJsonReader *json, GString *unused)
{
  switch (peek (json))
    {
    case '{':
      tps_json_begin_object (json);
      while (tps_json_next_member (json, unused))
        skip_value (json, unused);
      break;
    case '[':
      tps_json_begin_array (json);
      while (tps_json_next_element (json))
        skip_value (json, unused);
      break;
    case '"':
      tps_json_read_string (json, unused);
      break;
    case 't':
    case 'f':
      if (!take_word (json, "true") && !take_word (json, "false"))
        tps_json_fail (json, "expected true or false");
      break;
    case 'n':
      if (!take_word (json, "null"))
        tps_json_fail (json, "expected a value");
      break;
    default:
      tps_json_read_double (json);
      break;
    }
}

void
tps_json_skip (TpsJsonReader *json)
{
  GString *unused = g_string_new (NULL);

  skip_value (json, unused);
  g_string_free (unused, TRUE);
}

gboolean
tps_json_end (TpsJsonReader *json, const gchar *what, GError **error)
{
  if (json->problem == NULL && json->depth > 0)
    tps_json_fail (json, "the text is truncated");
  if (peek (json) != 0 || (json->problem == NULL && json->at < json->n_bytes))
    tps_json_fail (json, "text follows the end");
  if (json->problem == NULL)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED, "%s: %s at offset %" G_GSIZE_FORMAT, what,
                   json->problem, json->at);
}

/* ---- writing --------------------------------------------------------------------------------- */

void
tps_json_append_string (GString *json, const gchar *text)
{
  g_string_append_c (json, '"');
  for (; *text != '\0'; text++)
    if (*text == '"' || *text == '\\')
      g_string_append_printf (json, "\\%c", *text);
    else if ((guchar) *text < 0x20)
      g_string_append_printf (json, "\\u%04x", (guint) *text);
    else
      g_string_append_c (json, *text);
  g_string_append_c (json, '"');
}

void
tps_json_append_double (GString *json, gdouble value)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  if (isinf (value))
    g_string_append (json, value > 0 ? "1e999" : "-1e999");
  else
    g_string_append (json, g_ascii_dtostr (text, sizeof text, value));
}
