/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log of a program: lines in a chosen format, to stderr, to the journal or to a file.
 *
 *   TpsTraceStreamOptions options = { .format = TPS_TRACE_JSON, .path = "/var/log/ps.log" };
 *   stream = tps_trace_stream_new (&options, &error);
 *   tps_trace_set_sink (tps_trace_stream_sink, stream);
 *   ...
 *   tps_trace_stream_reopen (stream, &error);      after the file was renamed
 *
 * For the journal a line begins with its priority in angle brackets (sd-daemon(3)), and text has
 * neither time nor level, since the journal adds them.
 */

#pragma once

#include "runtime/base/trace.h"
#include "runtime/base/trace_json.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_TRACE_TEXT = 0, /* runtime/base/trace_sinks.h */
  TPS_TRACE_JSON = 1, /* runtime/base/trace_json.h */
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

/* Opens the path again, so that the log continues in a new file if the former file was renamed or
 * deleted. Has no effect without a path. Errors: INVALID_ARGUMENT; the log then continues in the
 * former file. Thread: any, one at a time. */
gboolean tps_trace_stream_reopen (TpsTraceStream *stream, GError **error);

/* Returns TRUE if `fd` is connected to the journal. `journal_stream` is the value of the
 * environment variable JOURNAL_STREAM (systemd.exec(5)), and may be NULL. */
gboolean tps_trace_stream_is_journal (gint fd, const gchar *journal_stream);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTraceStream, tps_trace_stream_free)

G_END_DECLS
