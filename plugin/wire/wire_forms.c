/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_forms.h"

#include <string.h>

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_parameter_server.h"

G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN); /* samples are not swapped here */

/* ---- TableSpec ------------------------------------------------------------------------------ */

static gboolean
read_device (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
             GError **error)
{
  static const TpsField name_field = { "name", .kind = &tps_kind_name };
  g_autofree gchar *name = NULL;

  if (!tps_kind_name.read (in, path, &name_field, &name, error))
    return FALSE;
  if (g_strlcpy (TPS_FIELD_VALUE (field, object), name, TPS_TABLE_PLACE_MAX_DEVICE + 1)
      <= TPS_TABLE_PLACE_MAX_DEVICE)
    return TRUE;
  return tps_field_refuse (path, error, "is longer than any device's name, %d characters",
                           TPS_TABLE_PLACE_MAX_DEVICE);
}

static void
write_device (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  tps_writer_string (out, TPS_FIELD_CONST_VALUE (field, object));
}

static gboolean
is_device_set (const TpsField *field, gconstpointer object)
{
  return *(const gchar *) TPS_FIELD_CONST_VALUE (field, object) != '\0';
}

const TpsValueKind tps_kind_device = { TPS_WIRE_BINARY, read_device, write_device, is_device_set };

/* Puts the path before the message of the runtime, which begins with the name of the field. Returns
 * `ok`. */
static gboolean
prefix_path (const TpsFieldPath *path, gboolean ok, GError **error)
{
  g_autofree gchar *where = ok ? NULL : tps_field_path_to_string (path);

  if (!ok)
    g_prefix_error (error, "%s.", where);
  return ok;
}

static gboolean
init_hash_shard (TpsShard *shard, const TpsTableSpecForm *wire, const TpsFieldPath *path,
                 GError **error)
{
  const gboolean lacks_index = !wire->has_shard_index;
  TpsFieldPath missing = { .parent = path, .name = lacks_index ? "shard_index" : "shard_count" };

  if (lacks_index || !wire->has_shard_count)
    return tps_field_refuse (&missing, error, "is missing");
  if (wire->has_first_row)
    return tps_field_refuse (path, error, "has first_row and shard_count, expected one of them");
  return prefix_path (
      path, tps_shard_init_hash (shard, wire->rows, wire->shard_index, wire->shard_count, error),
      error);
}

static gboolean
init_range_shard (TpsShard *shard, const TpsTableSpecForm *wire, const TpsFieldPath *path,
                  GError **error)
{
  gint64 n_rows = wire->has_shard_rows ? wire->shard_rows : -1;
  TpsFieldPath at = { .parent = path, .name = "shard_rows" };

  if (wire->has_shard_rows && n_rows < 0) /* for the function below, -1 means all remaining rows */
    return tps_field_refuse (&at, error, "is %" G_GINT64_FORMAT ", expected >= 0", n_rows);
  return prefix_path (
      path, tps_shard_init_range (shard, wire->rows, wire->first_row, n_rows, error), error);
}

/* Checks shard_rows. For a range, it is the number of rows. For other shards, the number is known,
 * and shard_rows must equal it. */
static gboolean
check_shard_rows (const TpsShard *shard, const TpsTableSpecForm *wire, const TpsFieldPath *path,
                  GError **error)
{
  TpsFieldPath at = { .parent = path, .name = "shard_rows" };

  if (!wire->has_shard_rows || wire->shard_rows == shard->n_rows)
    return TRUE;
  return tps_field_refuse (&at, error,
                           "is %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT
                           ", the number of rows of this shard, because first_row is not set",
                           wire->shard_rows, shard->n_rows);
}

static gboolean
init_shard (TpsShard *shard, const TpsTableSpecForm *wire, const TpsFieldPath *path, GError **error)
{
  if (wire->has_shard_index || wire->has_shard_count)
    return init_hash_shard (shard, wire, path, error)
           && check_shard_rows (shard, wire, path, error);
  if (wire->has_first_row)
    return init_range_shard (shard, wire, path, error);
  tps_shard_init_whole (shard, wire->rows);
  return check_shard_rows (shard, wire, path, error);
}

/* Replaces the spec, which must be zero or valid on entry. */
gboolean
tps_read_table_spec (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsTableSpec *spec = target;
  TpsTableSpecForm wire = { 0 };
  gboolean ok;

  tps_table_spec_init (&wire.spec, NULL, 1, 0); /* sets defaults for absent fields */
  ok = tps_fields_read (tps_table_spec_fields, in, path, &wire, NULL, error)
       && init_shard (&wire.spec.shard, &wire, path, error);
  tps_table_spec_clear (spec);
  *spec = wire.spec;
  return ok;
}

void
tps_write_table_spec (TpsWriter *out, gconstpointer source)
{
  const TpsTableSpec *spec = source;
  const TpsShard *shard = &spec->shard;
  TpsTableSpecForm wire = {
    .spec = *spec,
    .rows = shard->rows,
    .has_first_row = shard->kind == TPS_SHARD_RANGE,
    .first_row = shard->first_row,
    .has_shard_index = shard->kind == TPS_SHARD_HASH,
    .shard_index = shard->index,
    .has_shard_count = shard->kind == TPS_SHARD_HASH,
    .shard_count = shard->count,
    .has_shard_rows = shard->kind != TPS_SHARD_WHOLE,
    .shard_rows = shard->n_rows,
  };

  tps_writer_struct_begin (out);
  tps_fields_write (tps_table_spec_fields, out, &wire);
  tps_writer_struct_end (out);
}

/* ---- Model ---------------------------------------------------------------------------------- */

gboolean
tps_read_model (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  g_autoptr (TpsModelVersion) model = tps_model_version_new (0, 0);

  if (!tps_fields_read (tps_model_fields, in, path, model, NULL, error))
    return FALSE;
  *(TpsModelVersion **) target = g_steal_pointer (&model);
  return TRUE;
}

void
tps_write_model (TpsWriter *out, gconstpointer source)
{
  tps_writer_struct_begin (out);
  tps_fields_write (tps_model_fields, out, *(const TpsModelVersion *const *) source);
  tps_writer_struct_end (out);
}

/* ---- MetricSummary -------------------------------------------------------------------------- */

static gboolean
read_samples (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
              GError **error)
{
  TpsMetricSummary *summary = object;
  TpsBytesView view = tps_reader_binary (in);

  if (view.n_bytes % sizeof (gdouble) != 0
      || view.n_bytes / sizeof (gdouble) > TPS_METRICS_MAX_SAMPLES)
    return tps_field_refuse (path, error,
                             "has %" G_GSIZE_FORMAT " bytes, expected at most %d float64",
                             view.n_bytes, TPS_METRICS_MAX_SAMPLES);
  g_free (summary->samples_ms);
  summary->n_samples = (guint) (view.n_bytes / sizeof (gdouble));
  summary->samples_ms = g_new (gdouble, MAX (summary->n_samples, 1));
  if (view.n_bytes > 0)
    memcpy (summary->samples_ms, view.data, view.n_bytes);
  return TRUE;
}

static void
write_samples (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsMetricSummary *summary = object;

  tps_writer_binary_borrowed (out, summary->samples_ms, summary->n_samples * sizeof (gdouble));
}

static gboolean
has_samples (const TpsField *field, gconstpointer object)
{
  return ((const TpsMetricSummary *) object)->samples_ms != NULL;
}

const TpsValueKind tps_kind_samples = { TPS_WIRE_BINARY, read_samples, write_samples, has_samples };

gboolean
tps_read_metric_summary (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error)
{
  TpsMetricSummary *summary = object;

  if (!tps_fields_read (tps_metric_summary_fields, in, path, summary, NULL, error))
    return FALSE;
  summary->variance_ms2 = summary->stdev_ms * summary->stdev_ms;
  return TRUE;
}

void
tps_metric_summary_free_value (gpointer summary)
{
  tps_metric_summary_free (summary);
}
