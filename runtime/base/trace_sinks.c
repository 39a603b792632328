/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/trace_sinks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/json_writer.h"

#define PLAIN_PUNCTUATION "_.:/@%+,-"

#define FILE_MODE 0640

static const struct
{
  const gchar *name;
  gint priority; /* the severity that syslog has for the level */
} levels[] = {
  [TPS_TRACE_ERROR] = { "error", 3 },
  [TPS_TRACE_WARNING] = { "warning", 4 },
  [TPS_TRACE_INFO] = { "info", 6 },
  [TPS_TRACE_DEBUG] = { "debug", 7 },
};

struct TpsTraceStream
{
  TpsTraceStreamOptions options; /* the struct owns its texts */
  gint fd;                       /* stderr's, or owned; the number never changes */
};

const gchar *
tps_trace_level_name (TpsTraceLevel level)
{
  return levels[level].name;
}

static gboolean
is_plain (const gchar *text)
{
  if (*text == '\0')
    return FALSE;
  for (; *text != '\0'; text++)
    if (!g_ascii_isalnum (*text) && strchr (PLAIN_PUNCTUATION, *text) == NULL)
      return FALSE;
  return TRUE;
}

static void
append_character (GString *line, const gchar **text)
{
  gunichar character = g_utf8_get_char_validated (*text, -1);
  gboolean is_utf8 = character != (gunichar) -1 && character != (gunichar) -2;

  if (!is_utf8 || character < 0x20 || character == 0x7f)
    g_string_append_printf (line, "\\x%02x", (guint) (guchar) * *text);
  else if (character == '"' || character == '\\')
    g_string_append_printf (line, "\\%c", (gchar) character);
  else if (character == ' ' || (g_unichar_isgraph (character) && !g_unichar_isspace (character)))
    g_string_append_unichar (line, character);
  else
    g_string_append_printf (line, "\\u{%x}", character);
  *text += is_utf8 ? g_utf8_skip[(guchar) * *text] : 1;
}

static void
append_text (GString *line, const gchar *text)
{
  if (is_plain (text))
    {
      g_string_append (line, text);
      return;
    }
  g_string_append_c (line, '"');
  while (*text != '\0')
    append_character (line, &text);
  g_string_append_c (line, '"');
}

/* Returns the value of a field as text, not escaped. The caller owns the text. */
static gchar *
field_to_text (const TpsTraceField *field)
{
  gchar real[G_ASCII_DTOSTR_BUF_SIZE];

  switch (field->kind)
    {
    case TPS_FIELD_INT:
      return g_strdup_printf ("%" G_GINT64_FORMAT, field->value.integer);
    case TPS_FIELD_UINT:
      return g_strdup_printf ("%" G_GUINT64_FORMAT, field->value.count);
    case TPS_FIELD_REAL:
      return g_strdup (g_ascii_formatd (real, sizeof real, "%.6g", field->value.real));
    case TPS_FIELD_BOOL:
      return g_strdup (field->value.flag ? "true" : "false");
    case TPS_FIELD_TEXT:
      break;
    }
  return g_strdup (field->value.text);
}

void
tps_trace_append_text (const TpsTraceRecord *record, GString *line)
{
  g_string_append (line, record->event);
  for (guint i = 0; i < record->n_fields; i++)
    {
      g_autofree gchar *value = field_to_text (&record->fields[i]);

      g_string_append_printf (line, " %s=", record->fields[i].key);
      append_text (line, value);
    }
  if (record->n_suppressed > 0)
    g_string_append_printf (line, " suppressed=%" G_GUINT64_FORMAT, record->n_suppressed);
}

void
tps_trace_append_line (const TpsTraceRecord *record, GString *line)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (record->time_us / G_USEC_PER_SEC);
  g_autofree gchar *seconds = g_date_time_format (time, "%Y-%m-%dT%H:%M:%S");
  g_autofree gchar *level = g_ascii_strup (tps_trace_level_name (record->level), -1);

  g_string_append_printf (line, "%s.%03dZ %s ", seconds,
                          (gint) (record->time_us % G_USEC_PER_SEC / 1000), level);
  tps_trace_append_text (record, line);
}

void
tps_trace_write_line (gint fd, const gchar *bytes, gsize n_bytes)
{
  while (n_bytes > 0)
    {
      gssize n = write (fd, bytes, n_bytes);
      GPollFD ready = { .fd = fd, .events = G_IO_OUT };

      if (n >= 0)
        {
          bytes += n;
          n_bytes -= (gsize) n;
        }
      else if (errno == EAGAIN)
        g_poll (&ready, 1, -1);
      else if (errno != EINTR)
        return;
    }
}

void
tps_trace_glib_sink (const TpsTraceRecord *record, gpointer user_data)
{
  const gchar priority[] = { (gchar) ('0' + levels[record->level].priority), '\0' };
  g_autoptr (GString) message = g_string_new (NULL);
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  GLogField fields[4 + TPS_TRACE_MAX_FIELDS] = {
    { "MESSAGE", NULL, -1 },
    { "PRIORITY", priority, -1 },
    { "GLIB_DOMAIN", "thriftps", -1 },
    { "EVENT", record->event, -1 },
  };

  tps_trace_append_text (record, message);
  fields[0].value = message->str;
  for (guint i = 0; i < record->n_fields; i++)
    {
      g_autofree gchar *key = g_ascii_strup (record->fields[i].key, -1);
      gchar *name = g_strconcat ("THRIFTPS_", key, NULL);
      gchar *value = field_to_text (&record->fields[i]);

      g_ptr_array_add (texts, name);
      g_ptr_array_add (texts, value);
      fields[4 + i] = (GLogField) { name, value, -1 };
    }
  /* The level is constant, so that no record can end a host (see the header). */
  g_log_structured_array (G_LOG_LEVEL_MESSAGE, fields, 4 + record->n_fields);
}

static void
add_time (TpsJsonWriter *json, gint64 time_us)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (time_us / G_USEC_PER_SEC);
  g_autofree gchar *seconds = g_date_time_format (time, "%Y-%m-%dT%H:%M:%S");
  g_autofree gchar *text = g_strdup_printf ("%s.%06dZ", seconds, (gint) (time_us % G_USEC_PER_SEC));

  tps_json_add_text (json, "time", text);
}

/* Adds a member with a text; nothing if the text is NULL. */
static void
add_member (TpsJsonWriter *json, const gchar *key, const gchar *text)
{
  if (text != NULL)
    tps_json_add_text (json, key, text);
}

static void
add_field (TpsJsonWriter *json, const TpsTraceField *field)
{
  switch (field->kind)
    {
    case TPS_FIELD_TEXT:
      tps_json_add_text (json, field->key, field->value.text);
      break;
    case TPS_FIELD_INT:
      tps_json_add_int (json, field->key, field->value.integer);
      break;
    case TPS_FIELD_UINT:
      tps_json_add_uint (json, field->key, field->value.count);
      break;
    case TPS_FIELD_REAL:
      tps_json_add_double (json, field->key, field->value.real);
      break;
    case TPS_FIELD_BOOL:
      tps_json_add_bool (json, field->key, field->value.flag);
      break;
    }
}

static void
append_json (const TpsTraceRecord *record, const TpsTraceOrigin *origin, GString *line)
{
  TpsJsonWriter json = { .text = line };
  /* The area of a record is the folder of its source file. */
  g_autofree gchar *area = record->file != NULL ? g_path_get_dirname (record->file) : NULL;

  tps_json_open (&json, NULL, '{');
  add_time (&json, record->time_us);
  tps_json_add_uint (&json, "sequence", record->sequence);
  add_member (&json, "level", tps_trace_level_name (record->level));
  add_member (&json, "event", record->event);
  add_member (&json, "area", area);
  add_member (&json, "process", origin->process);
  if (origin->pid != 0)
    tps_json_add_int (&json, "pid", origin->pid);
  add_member (&json, "host", origin->host);
  add_member (&json, "node", origin->node);
  tps_json_open (&json, "fields", '{');
  for (guint i = 0; i < record->n_fields; i++)
    add_field (&json, &record->fields[i]);
  tps_json_close (&json, '}');
  if (record->n_suppressed > 0)
    tps_json_add_uint (&json, "suppressed", record->n_suppressed);
  tps_json_close (&json, '}');
}

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
    g_string_append_printf (line, "<%d>", levels[record->level].priority);
  if (stream->options.format == TPS_TRACE_JSON)
    append_json (record, &stream->options.origin, line);
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
