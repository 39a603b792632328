/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads JSON (RFC 8259) sequentially, without building a tree, so that the reader of a 100 MB text
 * needs no other memory.
 *
 *   tps_json_begin_object (&json);
 *   while (tps_json_next_member (&json, key))
 *     if (g_str_equal (key->str, "lsn"))
 *       lsn = tps_json_read_i64 (&json);
 *     else
 *       tps_json_skip (&json);
 *   if (!tps_json_end (&json, "manifest", &error))
 *     ...
 *
 * After an error, every later call returns 0 or FALSE, and tps_json_end() reports the first error.
 * Thread: one at a time.
 */

#pragma once

#include <glib.h>

/* The maximum nesting of values. */
#define TPS_JSON_MAX_DEPTH 32

typedef struct
{
  const gchar *text; /* [n_bytes], borrowed; need not end with 0 */
  gsize n_bytes;
  gsize at;
  guint depth;
  gboolean is_first;    /* no member of the object, or element of the array, has been read yet */
  const gchar *problem; /* static; NULL = none */
} TpsJsonReader;

/* Begins to read `text`, which is borrowed. */
void tps_json_reader_init (TpsJsonReader *json, const gchar *text, gsize n_bytes);

/* Begins an object, whose members must be read with tps_json_next_member(). */
void tps_json_begin_object (TpsJsonReader *json);
/* Sets `key`, with its escapes decoded (valid UTF-8), if there is another member; its value must be
 * read or skipped next. FALSE: the object has ended. */
gboolean tps_json_next_member (TpsJsonReader *json, GString *key);

/* Begins an array, whose elements must be read with tps_json_next_element(). */
void tps_json_begin_array (TpsJsonReader *json);
/* Returns TRUE if another element follows, which must be read or skipped next. */
gboolean tps_json_next_element (TpsJsonReader *json);

/* Read or skip one value. A value of a different type, an integer beyond 64 bits, or text that is
 * not UTF-8 is an error. */
void tps_json_read_string (TpsJsonReader *json, GString *value);
gint64 tps_json_read_i64 (TpsJsonReader *json);
gdouble tps_json_read_double (TpsJsonReader *json);
void tps_json_skip (TpsJsonReader *json);

/* Marks the text as invalid at the present place. `problem` is static. */
void tps_json_fail (TpsJsonReader *json, const gchar *problem);

/* Returns TRUE if the text was read without an error, and only blanks follow. `what` names the text
 * in errors. Errors: ABORTED, with the offset. */
gboolean tps_json_end (TpsJsonReader *json, const gchar *what, GError **error);

/* Appends `text` (valid UTF-8) in quotes. */
void tps_json_append_string (GString *json, const gchar *text);
/* Appends a number, which must not be NAN, such that a reader gets the same bits. Infinity is
 * 1e999, which other readers also read as infinity. */
void tps_json_append_double (GString *json, gdouble value);
