/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes JSON sequentially, without a tree in memory: an answer may contain 10,000 connections.
 *
 *   TpsJsonWriter json;
 *
 *   tps_json_writer_init (&json);
 *   tps_json_open (&json, NULL, '{');
 *   tps_json_add_text (&json, "name", "server0");
 *   tps_json_open (&json, "devices", '[');
 *   tps_json_add_text (&json, NULL, "cpu");
 *   tps_json_close (&json, ']');
 *   tps_json_close (&json, '}');
 *   text = tps_json_writer_take (&json);
 *
 * `name` is that of a member, and NULL in an array and at the top. Names are not escaped.
 * Thread: one at a time.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  GString *text;
  gboolean needs_comma;
} TpsJsonWriter;

/* Makes an empty writer in the caller's storage. clear() frees a text that was not taken. */
void tps_json_writer_init (TpsJsonWriter *json);
/* The text, owned by the caller; the writer is empty afterwards. */
GString *tps_json_writer_take (TpsJsonWriter *json);
void tps_json_writer_clear (TpsJsonWriter *json);

/* `bracket` is '{' or '[', and '}' or ']' at the end. */
void tps_json_open (TpsJsonWriter *json, const gchar *name, gchar bracket);
void tps_json_close (TpsJsonWriter *json, gchar bracket);

/* NULL becomes null; bytes that are not UTF-8 are replaced. */
void tps_json_add_text (TpsJsonWriter *json, const gchar *name, const gchar *value);
void tps_json_add_int (TpsJsonWriter *json, const gchar *name, gint64 value);
void tps_json_add_uint (TpsJsonWriter *json, const gchar *name, guint64 value);
/* With at most `n_decimals` decimals. NaN and infinities become null. */
void tps_json_add_real (TpsJsonWriter *json, const gchar *name, gdouble value, guint n_decimals);
/* With all digits: a reader gets the same double. NaN and infinities become null. */
void tps_json_add_double (TpsJsonWriter *json, const gchar *name, gdouble value);
/* The same for readers that take 1e999, which is out of the range of a double, for infinity, as
 * Python does: infinities become 1e999 and -1e999. NaN becomes null. */
void tps_json_add_unbounded (TpsJsonWriter *json, const gchar *name, gdouble value);
void tps_json_add_bool (TpsJsonWriter *json, const gchar *name, gboolean value);
void tps_json_add_null (TpsJsonWriter *json, const gchar *name);

/* Seconds with milliseconds: of a duration, and of a moment since 1970. */
void tps_json_add_seconds (TpsJsonWriter *json, const gchar *name, gint64 duration_ns);
void tps_json_add_time (TpsJsonWriter *json, const gchar *name, gint64 real_us);

G_END_DECLS
