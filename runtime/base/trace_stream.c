/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/trace_sinks.h"

#define FILE_MODE 0640

struct TpsTraceStream
{
  TpsTraceStreamOptions options; /* the struct owns its texts */
  gint fd;                       /* stderr's, or owned; the number never changes */
};

/* Opens or creates a file for appending. Returns -1 after an error. */
static gint
open_file (const gchar *path, GError **error)
{
  gint fd = open (path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, FILE_MODE);

  if (fd < 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "log file %s cannot be opened: %s",
                 path, g_strerror (errno));
  return fd;
}

TpsTraceStream *
tps_trace_stream_new (const TpsTraceStreamOptions *options, GError **error)
{
  gint fd = options->path != NULL ? open_file (options->path, error) : STDERR_FILENO;
  TpsTraceStream *stream;

  if (fd < 0)
    return NULL;
  stream = g_new0 (TpsTraceStream, 1);
  stream->fd = fd;
  stream->options = *options;
  stream->options.path = g_strdup (options->path);
  stream->options.origin.process = g_strdup (options->origin.process);
  stream->options.origin.host = g_strdup (options->origin.host);
  stream->options.origin.node = g_strdup (options->origin.node);
  return stream;
}

void
tps_trace_stream_free (TpsTraceStream *stream)
{
  if (stream->options.path != NULL)
    close (stream->fd);
  g_free ((gchar *) (gsize) stream->options.path);
  g_free ((gchar *) (gsize) stream->options.origin.process);
  g_free ((gchar *) (gsize) stream->options.origin.host);
  g_free ((gchar *) (gsize) stream->options.origin.node);
  g_free (stream);
}

/* dup3() keeps the number of the descriptor, so the sink may write at the same time. */
gboolean
tps_trace_stream_reopen (TpsTraceStream *stream, GError **error)
{
  gboolean is_replaced;
  gint fd;

  if (stream->options.path == NULL)
    return TRUE;
  fd = open_file (stream->options.path, error);
  if (fd < 0)
    return FALSE;
  is_replaced = dup3 (fd, stream->fd, O_CLOEXEC) >= 0;
  if (!is_replaced)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "log file %s cannot be replaced: %s",
                 stream->options.path, g_strerror (errno));
  close (fd);
  return is_replaced;
}

void
tps_trace_stream_sink (const TpsTraceRecord *record, gpointer user_data)
{
  const TpsTraceStream *stream = user_data;
  g_autoptr (GString) line = g_string_new (NULL);

  if (stream->options.is_journal)
    g_string_append_printf (line, "<%d>", tps_trace_get_priority (record->level));
  if (stream->options.format == TPS_TRACE_JSON)
    tps_trace_append_json (record, &stream->options.origin, line);
  else if (stream->options.is_journal)
    tps_trace_append_text (record, line);
  else
    tps_trace_append_line (record, line);
  g_string_append_c (line, '\n');
  tps_trace_write_line (stream->fd, line->str, line->len);
}

/* `journal_stream` has the form "DEVICE:INODE", in decimal. */
gboolean
tps_trace_stream_is_journal (gint fd, const gchar *journal_stream)
{
  g_auto (GStrv) numbers = NULL;
  guint64 device, inode;
  struct stat status;

  if (journal_stream == NULL)
    return FALSE;
  numbers = g_strsplit (journal_stream, ":", 2);
  return g_strv_length (numbers) == 2
         && g_ascii_string_to_unsigned (numbers[0], 10, 0, G_MAXUINT64, &device, NULL)
         && g_ascii_string_to_unsigned (numbers[1], 10, 0, G_MAXUINT64, &inode, NULL)
         && fstat (fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}
