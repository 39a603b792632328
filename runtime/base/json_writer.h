/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes JSON sequentially, without a tree in memory, because an answer may describe 10,000
 * connections. `name` is the name of a member, not escaped, and must be NULL in an array and at the
 * top. Thread: one at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  GString *text;
  gboolean needs_comma;
} TpsJsonWriter;

void tps_json_writer_init (TpsJsonWriter *json);
/* Returns the text, which the caller owns; the writer is empty afterwards. */
GString *tps_json_writer_take (TpsJsonWriter *json);

/* Begin and end an object ('{', '}') or an array ('[', ']'). */
void tps_json_open (TpsJsonWriter *json, const gchar *name, gchar bracket);
void tps_json_close (TpsJsonWriter *json, gchar bracket);

/* Add a member or an element. NULL becomes null. Each byte that is not UTF-8 becomes U+FFFD, and
 * characters that do not print are escaped. */
void tps_json_add_text (TpsJsonWriter *json, const gchar *name, const gchar *value);
void tps_json_add_int (TpsJsonWriter *json, const gchar *name, gint64 value);
void tps_json_add_uint (TpsJsonWriter *json, const gchar *name, guint64 value);
/* Adds a number with at most `n_decimals` decimals. NaN and infinities become null. */
void tps_json_add_real (TpsJsonWriter *json, const gchar *name, gdouble value, guint n_decimals);
/* Adds a number with enough digits for a reader to get the same double. NaN and infinities become
 * null. */
void tps_json_add_double (TpsJsonWriter *json, const gchar *name, gdouble value);
/* As tps_json_add_double(), but infinities become 1e999 and -1e999, which are outside the range of
 * a double. Python, for example, reads them as infinities. */
void tps_json_add_unbounded (TpsJsonWriter *json, const gchar *name, gdouble value);
void tps_json_add_bool (TpsJsonWriter *json, const gchar *name, gboolean value);
void tps_json_add_null (TpsJsonWriter *json, const gchar *name);

/* Add a duration, and a moment since 1970, in seconds with three decimals. */
void tps_json_add_seconds (TpsJsonWriter *json, const gchar *name, gint64 duration_ns);
void tps_json_add_time (TpsJsonWriter *json, const gchar *name, gint64 real_us);

/* The limit for files and for replies of servers. json-glib needs up to 200 bytes of stack for each
 * of these brackets if all of them are nested. */
#define TPS_JSON_MAX_BRACKETS 16384

/* Returns TRUE if `json` has more than `max` opening brackets. Must be checked before json-glib
 * parses a text, because it recurses without a limit. Brackets in strings and comments count too:
 * json-glib ends these by rules of its own. */
gboolean tps_json_has_more_brackets (const gchar *json, guint max);

G_END_DECLS
