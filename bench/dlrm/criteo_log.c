/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/criteo_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/error.h"

#define N_FIELDS (1 + TPS_CLICK_DENSE + TPS_CLICK_TABLES)
#define MAX_HEX_DIGITS 8

struct TpsCriteoLog
{
  gchar *path;
  FILE *file;
  TpsClickShape shape;
  guint64 line_number; /* number of the last line read, from 1 */
  gchar line[TPS_CRITEO_MAX_LINE + 1];
};

TpsCriteoLog *
tps_criteo_log_open (const gchar *path, const TpsClickShape *shape, GError **error)
{
  TpsCriteoLog *log;
  FILE *file;

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    if (shape->bag_length[t] != 1)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: its lines have one id of each table, not %" G_GSIZE_FORMAT, path,
                     shape->bag_length[t]);
        return NULL;
      }
  file = fopen (path, "re");
  if (file == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s: %s", path, g_strerror (errno));
      return NULL;
    }
  log = g_new0 (TpsCriteoLog, 1);
  log->path = g_strdup (path);
  log->file = file;
  log->shape = *shape;
  return log;
}

void
tps_criteo_log_free (TpsCriteoLog *log)
{
  fclose (log->file);
  g_free (log->path);
  g_free (log);
}

/* -- lines -- */

static gboolean
refuse (const TpsCriteoLog *log, guint field, const gchar *value, const gchar *expected,
        GError **error)
{
  g_autofree gchar *printable = g_strescape (value, NULL);

  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "%s:%" G_GUINT64_FORMAT ": field %u: \"%.40s\", expected %s", log->path,
               log->line_number, field + 1, printable, expected);
  return FALSE;
}

static gboolean
refuse_line (const TpsCriteoLog *log, const gchar *problem, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s:%" G_GUINT64_FORMAT ": %s",
               log->path, log->line_number, problem);
  return FALSE;
}

/* Reads the next line. Returns FALSE without an error at the end of the file. */
static gboolean
read_line (TpsCriteoLog *log, GError **error)
{
  gsize n_bytes;

  log->line[0] = '\0';
  if (fgets (log->line, sizeof log->line, log->file) == NULL)
    {
      if (ferror (log->file))
        refuse_line (log, g_strerror (errno), error);
      return FALSE;
    }
  log->line_number++;
  n_bytes = strlen (log->line);
  if (n_bytes > 0 && log->line[n_bytes - 1] == '\n')
    log->line[--n_bytes] = '\0';
  else if (!feof (log->file))
    return refuse_line (
        log,
        "the line is longer than " G_STRINGIFY (TPS_CRITEO_MAX_LINE) " bytes or contains a NUL",
        error);
  if (n_bytes > 0 && log->line[n_bytes - 1] == '\r')
    log->line[n_bytes - 1] = '\0';
  return TRUE;
}

/* Reads the next line. At the end of the file, continues with the first line. */
static gboolean
next_line (TpsCriteoLog *log, GError **error)
{
  GError *failure = NULL;

  if (read_line (log, &failure))
    return TRUE;
  if (failure != NULL)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }
  if (log->line_number == 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: the file is empty",
                   log->path);
      return FALSE;
    }
  rewind (log->file);
  log->line_number = 0;
  return next_line (log, error);
}

/* -- fields -- */

/* Splits a line at its tabs, in place. Returns the number of fields, which may exceed N_FIELDS. */
static guint
split (gchar *line, gchar **fields)
{
  guint n = 0;

  for (gchar *at = line; at != NULL; n++)
    {
      gchar *tab = strchr (at, '\t');

      if (n < N_FIELDS)
        fields[n] = at;
      if (tab != NULL)
        *tab = '\0';
      at = tab != NULL ? tab + 1 : NULL;
    }
  return n;
}

static gboolean
parse_dense (const TpsCriteoLog *log, guint field, const gchar *text, gfloat *value, GError **error)
{
  gint64 number = 0;

  if (text[0] != '\0'
      && !g_ascii_string_to_signed (text, 10, G_MININT64, G_MAXINT64, &number, NULL))
    return refuse (log, field, text, "an integer or nothing", error);
  *value = (gfloat) log1p ((gdouble) MAX (number, 0));
  return TRUE;
}

static gboolean
parse_id (const TpsCriteoLog *log, guint field, const gchar *text, gint64 rows, gint64 *id,
          GError **error)
{
  guint64 number = 0;

  for (guint i = 0; text[i] != '\0'; i++)
    {
      if (!g_ascii_isxdigit (text[i]) || i == MAX_HEX_DIGITS)
        return refuse (log, field, text, "up to 8 hexadecimal digits or nothing", error);
      number = number * 16 + (guint64) g_ascii_xdigit_value (text[i]);
    }
  *id = (gint64) (number % (guint64) rows);
  return TRUE;
}

static gboolean
parse_line (TpsCriteoLog *log, TpsClickBatch *batch, gsize sample, GError **error)
{
  gchar *fields[N_FIELDS];
  guint n_fields = split (log->line, fields);
  gchar **dense = fields + 1, **ids = dense + TPS_CLICK_DENSE;

  if (n_fields != N_FIELDS)
    {
      g_autofree gchar *problem = g_strdup_printf ("%u fields, expected %d", n_fields, N_FIELDS);

      return refuse_line (log, problem, error);
    }
  if (!g_str_equal (fields[0], "0") && !g_str_equal (fields[0], "1"))
    return refuse (log, 0, fields[0], "0 or 1", error);
  batch->labels[sample] = fields[0][0] == '1' ? 1 : 0;
  for (guint i = 0; i < TPS_CLICK_DENSE; i++)
    if (!parse_dense (log, 1 + i, dense[i], &batch->dense[sample * TPS_CLICK_DENSE + i], error))
      return FALSE;
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    if (!parse_id (log, 1 + TPS_CLICK_DENSE + t, ids[t], log->shape.rows[t], &batch->ids[t][sample],
                   error))
      return FALSE;
  return TRUE;
}

gboolean
tps_criteo_log_read (TpsCriteoLog *log, TpsClickBatch *batch, GError **error)
{
  for (gsize i = 0; i < batch->n_samples; i++)
    if (!next_line (log, error) || !parse_line (log, batch, i, error))
      return FALSE;
  return TRUE;
}

gboolean
tps_criteo_log_skip (TpsCriteoLog *log, guint64 n_samples, GError **error)
{
  for (guint64 i = 0; i < n_samples; i++)
    if (!next_line (log, error))
      return FALSE;
  return TRUE;
}
