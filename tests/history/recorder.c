/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/recorder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* FLOAT32 represents all integers up to this number exactly. */
#define MAX_COUNT 16777216.0f

struct TpsHistoryRecorder
{
  guint n_clients;
  TpsMutex lock; /* of the file: whole lines, in the order of time */
  FILE *file;
};

TpsHistoryRecorder *
tps_history_recorder_new (const gchar *path, guint n_clients, guint n_rows, GError **error)
{
  FILE *file = fopen (path, "we");
  TpsHistoryRecorder *recorder;

  if (file == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %s", path, g_strerror (errno));
      return NULL;
    }
  recorder = g_new (TpsHistoryRecorder, 1);
  *recorder = (TpsHistoryRecorder) { .n_clients = n_clients, .file = file };
  tps_mutex_init (&recorder->lock);
  fprintf (file, "thriftps history 1\nclients %u\nrows %u\n", n_clients, n_rows);
  return recorder;
}

gboolean
tps_history_recorder_close (TpsHistoryRecorder *recorder)
{
  gboolean is_whole = ferror (recorder->file) == 0;

  is_whole &= fclose (recorder->file) == 0;
  tps_mutex_clear (&recorder->lock);
  g_free (recorder);
  return is_whole;
}

static void
write_line (TpsHistoryRecorder *recorder, const gchar *line)
{
  tps_mutex_lock (&recorder->lock);
  fputs (line, recorder->file);
  fputc ('\n', recorder->file);
  tps_mutex_unlock (&recorder->lock);
}

static void
write_numbers (TpsHistoryRecorder *recorder, const gchar *event, guint client, guint number)
{
  g_autofree gchar *line = g_strdup_printf ("%s %u %u", event, client, number);

  write_line (recorder, line);
}

static void
append_rows (GString *line, const guint *rows, guint n_rows)
{
  for (guint i = 0; i < n_rows; i++)
    g_string_append_printf (line, " %u", rows[i]);
}

static void
write_and_free (TpsHistoryRecorder *recorder, GString *line)
{
  write_line (recorder, line->str);
  g_string_free (line, TRUE);
}

void
tps_history_push (TpsHistoryRecorder *recorder, guint client, guint number, const guint *rows,
                  guint n_rows)
{
  GString *line = g_string_new (NULL);

  g_string_printf (line, "push %u %u", client, number);
  append_rows (line, rows, n_rows);
  write_and_free (recorder, line);
}

void
tps_history_ack (TpsHistoryRecorder *recorder, guint client, guint number)
{
  write_numbers (recorder, "ack", client, number);
}

void
tps_history_unknown (TpsHistoryRecorder *recorder, guint client, guint number)
{
  write_numbers (recorder, "unknown", client, number);
}

void
tps_history_read (TpsHistoryRecorder *recorder, guint client, const guint *rows, guint n_rows)
{
  GString *line = g_string_new (NULL);

  g_string_printf (line, "read %u", client);
  append_rows (line, rows, n_rows);
  write_and_free (recorder, line);
}

static void
append_value (GString *line, gfloat value)
{
  if (value >= 0 && value <= MAX_COUNT && value == floorf (value))
    g_string_append_printf (line, " %.0f", (gdouble) value);
  else
    g_string_append_printf (line, " %.9g", (gdouble) value);
}

void
tps_history_values (TpsHistoryRecorder *recorder, guint client, const gfloat *values, guint n_rows,
                    guint dim)
{
  GString *line = g_string_new (NULL);

  g_string_printf (line, "values %u", client);
  for (guint i = 0; i < n_rows; i++)
    for (guint column = 0; column < recorder->n_clients; column++)
      append_value (line, values[(gsize) i * dim + column]);
  write_and_free (recorder, line);
}

void
tps_history_lost (TpsHistoryRecorder *recorder, guint client)
{
  g_autofree gchar *line = g_strdup_printf ("lost %u", client);

  write_line (recorder, line);
}

void
tps_history_crash (TpsHistoryRecorder *recorder)
{
  write_line (recorder, "crash");
}

void
tps_history_restart (TpsHistoryRecorder *recorder)
{
  write_line (recorder, "restart");
}
