/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/click_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/embedding/sharding.h"

/* -- click batch -- */

#define LARGE_TABLE 250000 /* rows before scaling; six tables have more */

/* From the configuration of the Kaggle model in github.com/facebookresearch/dlrm. */
static const gint64 kaggle_rows[TPS_CLICK_TABLES] = {
  1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
  27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572,
};

void
tps_click_shape_init (TpsClickShape *shape, gdouble scale, gsize multi_hot)
{
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      shape->rows[t] = (gint64) ceil ((gdouble) kaggle_rows[t] * scale);
      shape->bag_length[t] = kaggle_rows[t] > LARGE_TABLE ? multi_hot : 1;
    }
}

gint64
tps_click_shape_count_rows (const TpsClickShape *shape)
{
  gint64 n_rows = 0;

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    n_rows += shape->rows[t];
  return n_rows;
}

void
tps_click_batch_init (TpsClickBatch *batch, const TpsClickShape *shape, gsize n_samples)
{
  batch->n_samples = n_samples;
  batch->labels = g_new (gfloat, n_samples);
  batch->dense = g_new (gfloat, n_samples * TPS_CLICK_DENSE);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    batch->ids[t] = g_new (gint64, n_samples * shape->bag_length[t]);
}

void
tps_click_batch_clear (TpsClickBatch *batch)
{
  g_clear_pointer (&batch->labels, g_free);
  g_clear_pointer (&batch->dense, g_free);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_clear_pointer (&batch->ids[t], g_free);
}

/* -- synthetic log -- */

/* The weights of the logistic model. They give a click rate of about one quarter, as in the data of
 * Criteo. */
#define BIAS (-1.3)
#define DENSE_WEIGHT 0.15
#define ID_WEIGHT 0.6

void
tps_synthetic_log_init (TpsSyntheticLog *log, const TpsClickShape *shape, gint64 seed,
                        gboolean is_uniform, gdouble exponent)
{
  *log = (TpsSyntheticLog) { .shape = *shape, .seed = seed, .is_uniform = is_uniform };
  for (guint t = 0; !is_uniform && t < TPS_CLICK_TABLES; t++)
    tps_zipf_init (&log->zipf[t], shape->rows[t], exponent);
}

static gint64
draw_id (const TpsSyntheticLog *log, guint table, TpsRng *rng)
{
  gint64 rows = log->shape.rows[table];

  if (log->is_uniform)
    return (gint64) tps_rng_next_below (rng, (guint64) rows);
  return tps_shard_permute (tps_zipf_draw (&log->zipf[table], rng), rows);
}

/* Returns a number in [-1, 1) that depends only on the table and the id. The constants are those of
 * a multiplicative hash function. */
static gdouble
get_effect (guint table, gint64 id)
{
  guint64 mixed = ((guint64) id + 1) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15) + table;

  mixed = (mixed ^ (mixed >> 31)) * G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9);
  return (gdouble) (mixed >> 11) * 0x1p-52 - 1;
}

static gdouble
fill_ids (const TpsSyntheticLog *log, TpsRng *rng, TpsClickBatch *batch, gsize sample)
{
  gdouble score = 0;

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      gsize length = log->shape.bag_length[t];
      gint64 *ids = batch->ids[t] + sample * length;

      for (gsize i = 0; i < length; i++)
        {
          ids[i] = draw_id (log, t, rng);
          score += ID_WEIGHT * get_effect (t, ids[i]) / sqrt ((gdouble) length);
        }
    }
  return score;
}

static gdouble
fill_dense (TpsRng *rng, gfloat *dense)
{
  gdouble score = 0;

  for (guint i = 0; i < TPS_CLICK_DENSE; i++)
    {
      gdouble value = -tps_rng_natural_log (1 - tps_rng_next_double (rng));

      dense[i] = (gfloat) value;
      score += DENSE_WEIGHT * (i % 2 == 0 ? value - 1 : 1 - value);
    }
  return score;
}

void
tps_synthetic_log_fill (const TpsSyntheticLog *log, guint64 first, TpsClickBatch *batch)
{
  for (gsize i = 0; i < batch->n_samples; i++)
    {
      gdouble score = BIAS;
      TpsRng rng;

      tps_rng_init (&rng, log->seed, first + i);
      score += fill_dense (&rng, batch->dense + i * TPS_CLICK_DENSE);
      score += fill_ids (log, &rng, batch, i);
      batch->labels[i] = tps_rng_next_double (&rng) < 1 / (1 + exp (-score)) ? 1 : 0;
    }
}

/* -- criteo log -- */

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

/* -- click log -- */

gboolean
tps_click_log_init (TpsClickLog *log, const TpsSyntheticLog *synthetic, const gchar *path,
                    GError **error)
{
  *log = (TpsClickLog) { .synthetic = *synthetic };
  if (path != NULL)
    log->file = tps_criteo_log_open (path, &synthetic->shape, error);
  return path == NULL || log->file != NULL;
}

void
tps_click_log_clear (TpsClickLog *log)
{
  g_clear_pointer (&log->file, tps_criteo_log_free);
}

gboolean
tps_click_log_read (TpsClickLog *log, guint64 first, TpsClickBatch *batch, GError **error)
{
  if (log->file == NULL)
    {
      tps_synthetic_log_fill (&log->synthetic, first, batch);
      return TRUE;
    }
  g_assert (first >= log->position);
  if (!tps_criteo_log_skip (log->file, first - log->position, error)
      || !tps_criteo_log_read (log->file, batch, error))
    return FALSE;
  log->position = first + batch->n_samples;
  return TRUE;
}
