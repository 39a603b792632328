/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/top/event_stream.h"

#include <string.h>

#include "runtime/base/error.h"

struct TpsEventStream
{
  TpsEventStreamFunc func;
  gpointer user_data;
  GString *line; /* the incomplete line */
  GString *name; /* of the incomplete event */
  GString *data; /* of the incomplete event */
  gboolean has_data;
  gboolean skips_newline; /* the last byte was a carriage return */
};

TpsEventStream *
tps_event_stream_new (TpsEventStreamFunc func, gpointer user_data)
{
  TpsEventStream *stream = g_new0 (TpsEventStream, 1);

  stream->func = func;
  stream->user_data = user_data;
  stream->line = g_string_new (NULL);
  stream->name = g_string_new (NULL);
  stream->data = g_string_new (NULL);
  return stream;
}

void
tps_event_stream_free (TpsEventStream *stream)
{
  g_string_free (stream->line, TRUE);
  g_string_free (stream->name, TRUE);
  g_string_free (stream->data, TRUE);
  g_free (stream);
}

static void
end_event (TpsEventStream *stream)
{
  if (stream->has_data)
    stream->func (stream->user_data, stream->name->len > 0 ? stream->name->str : "message",
                  stream->data->str);
  g_string_truncate (stream->name, 0);
  g_string_truncate (stream->data, 0);
  stream->has_data = FALSE;
}

/* Returns the text of the line after "FIELD:", without one optional space; NULL = the line has a
 * different field. */
static const gchar *
get_value (const gchar *line, const gchar *field)
{
  gsize n = strlen (field);

  if (strncmp (line, field, n) != 0 || line[n] != ':')
    return NULL;
  return line + n + (line[n + 1] == ' ' ? 2 : 1);
}

static void
end_line (TpsEventStream *stream)
{
  const gchar *line = stream->line->str;
  const gchar *name = get_value (line, "event");
  const gchar *data = get_value (line, "data");

  if (*line == '\0')
    end_event (stream);
  else if (name != NULL)
    g_string_assign (stream->name, name);
  else if (data != NULL)
    {
      if (stream->has_data)
        g_string_append_c (stream->data, '\n');
      g_string_append (stream->data, data);
      stream->has_data = TRUE;
    }
  g_string_truncate (stream->line, 0);
}

static gboolean
is_too_long (const TpsEventStream *stream)
{
  return stream->line->len + stream->name->len + stream->data->len > TPS_EVENT_STREAM_MAX_BYTES;
}

/* A line ends with a line feed, a carriage return, or a carriage return and a line feed. */
gboolean
tps_event_stream_feed (TpsEventStream *stream, const gchar *bytes, gsize n_bytes, GError **error)
{
  for (const gchar *end = bytes + n_bytes; bytes < end; bytes++)
    {
      gboolean is_second = stream->skips_newline && *bytes == '\n';

      stream->skips_newline = *bytes == '\r';
      if (is_second)
        continue;
      if (*bytes == '\n' || *bytes == '\r')
        end_line (stream);
      else
        g_string_append_c (stream->line, *bytes);
      if (is_too_long (stream))
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                       "an event is longer than %" G_GSIZE_FORMAT " bytes",
                       TPS_EVENT_STREAM_MAX_BYTES);
          return FALSE;
        }
    }
  return TRUE;
}
