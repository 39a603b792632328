/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Destinations of trace records, and their text format. As text a record is one line:
 *
 *   2026-11-20T12:00:00.000Z WARNING connection_refused peer=127.0.0.1:40312 max_connections=1024
 *
 * A value is quoted unless it consists only of letters, digits and _.:/@%+,- characters. Inside
 * quotes, a quote and a backslash are escaped by a backslash, control characters and bytes that are
 * not UTF-8 as \x1b, other characters that do not print as \u{2028}, even if a peer has chosen the
 * text. As JSON (RFC 8259), a record is one line, too, always in UTF-8:
 *
 *   {"time":"2026-11-20T12:00:00.000123Z","sequence":17,"level":"info","event":"request_failed",
 *    "area":"plugin/service","process":"thriftps_server","pid":4711,"host":"ps0","node":"server0",
 *    "fields":{"method":"EmbeddingTable:drop_table","code":"NOT_FOUND"},"suppressed":2}
 *
 * Invalid bytes become U+FFFD, and numbers that JSON cannot represent null. */

#pragma once

#include "runtime/base/trace.h"

G_BEGIN_DECLS

const gchar *tps_trace_level_name (TpsTraceLevel level);

/* Appends "event key=value ... suppressed=N", without time, level or newline. Thread: any. */
void tps_trace_append_text (const TpsTraceRecord *record, GString *line);

/* Appends the whole line, with time and level but without a newline. Thread: any. */
void tps_trace_append_line (const TpsTraceRecord *record, GString *line);

/* Writes all bytes. Waits for a descriptor that is not ready, even in non-blocking mode. Bytes that
 * cannot be written are lost. Thread: any. */
void tps_trace_write_line (gint fd, const gchar *bytes, gsize n_bytes);

/* Writes to GLib's structured log under the domain "thriftps", with the fields EVENT and
 * THRIFTPS_<KEY>. GLib's level is always MESSAGE, because a peer must not be able to end a host
 * that makes warnings fatal; PRIORITY has the true severity. */
void tps_trace_glib_sink (const TpsTraceRecord *record, gpointer user_data);

/* Members that all records of a process share. Texts that are NULL are left out. */
typedef struct
{
  const gchar *process;
  const gchar *host;
  const gchar *node; /* the name in Node.describe */
  gint64 pid;
} TpsTraceOrigin;

/* ---- streams --------------------------------------------------------------------------------- */

/* The log of a program: lines in a chosen format, to stderr, to the journal or to a file. For the
 * journal a line begins with its priority in angle brackets (sd-daemon(3)), and text has neither
 * time nor level. */

typedef enum
{
  TPS_TRACE_TEXT = 0,
  TPS_TRACE_JSON = 1,
} TpsTraceFormat;

/* Options of a stream, which are copied. */
typedef struct
{
  TpsTraceFormat format;
  gboolean is_journal;   /* lines begin with priorities */
  const gchar *path;     /* a file, to which lines are appended; NULL = stderr */
  TpsTraceOrigin origin; /* of lines of JSON */
} TpsTraceStreamOptions;

typedef struct TpsTraceStream TpsTraceStream;

/* Opens a stream, which the caller owns. A file that does not exist is created with mode 0640.
 * Errors: INVALID_ARGUMENT, naming the file. Thread: any. */
TpsTraceStream *tps_trace_stream_new (const TpsTraceStreamOptions *options, GError **error);
/* Closes and frees a stream. A different sink must already have been set. */
void tps_trace_stream_free (TpsTraceStream *stream);

/* A sink that writes to the stream `user_data`. It waits for a descriptor that is not ready. A line
 * that cannot be written is lost. */
void tps_trace_stream_sink (const TpsTraceRecord *record, gpointer user_data);

/* Opens the path again, after the file was renamed or deleted. Has no effect without a path.
 * Errors: INVALID_ARGUMENT; the log then continues in the former file. Thread: any, one at a
 * time. */
gboolean tps_trace_stream_reopen (TpsTraceStream *stream, GError **error);

/* Returns TRUE if `fd` is connected to the journal. `journal_stream` is the value of the
 * environment variable JOURNAL_STREAM (systemd.exec(5)), and may be NULL. */
gboolean tps_trace_stream_is_journal (gint fd, const gchar *journal_stream);

G_END_DECLS
