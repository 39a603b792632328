/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Destinations of trace records, and their text format.
 *
 * As text a record is one line:
 *
 *   2026-11-20T12:00:00.000Z WARNING connection_refused peer=127.0.0.1:40312 max_connections=1024
 *
 * A value is quoted unless it consists only of letters, digits and _.:/@%+,- characters. Inside
 * quotes, a quote and a backslash are escaped by a backslash, control characters and bytes that are
 * not UTF-8 as \x1b, other characters that do not print as \u{2028}. A record is thus always one
 * line that can be parsed, even if a peer has chosen the text. JSON is in trace_json.h, files and
 * the journal in trace_stream.h.
 */

#pragma once

#include "runtime/base/trace.h"

G_BEGIN_DECLS

/* Appends "event key=value ... suppressed=N", without time, level or newline. Thread: any. */
void tps_trace_append_text (const TpsTraceRecord *record, GString *line);

/* Appends the whole line, with time and level but without a newline. Thread: any. */
void tps_trace_append_line (const TpsTraceRecord *record, GString *line);

/* Writes all bytes. Waits for a descriptor that is not ready, even in non-blocking mode. Bytes that
 * cannot be written are lost. Thread: any. */
void tps_trace_write_line (gint fd, const gchar *bytes, gsize n_bytes);

/* Returns the severity that syslog has for `level`: 3 (error), 4, 6 or 7 (debug). */
gint tps_trace_get_priority (TpsTraceLevel level);

/* Returns the value of a field as text, not escaped. The caller owns the text. Thread: any. */
gchar *tps_trace_field_to_text (const TpsTraceField *field);

/* A sink that writes to GLib's structured log under the domain "thriftps", with the fields EVENT
 * and THRIFTPS_<KEY>. GLib's level is always MESSAGE, because a peer must not be able to end a host
 * that makes warnings fatal; PRIORITY has the true severity. `user_data` is not used. */
void tps_trace_glib_sink (const TpsTraceRecord *record, gpointer user_data);

G_END_DECLS
