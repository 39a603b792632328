/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* TableSpec, and the methods that make, list and drop tables. */

#include <math.h>

#include "plugin/wire/wire_embedding_table.h"

/* ---- reading -------------------------------------------------------------------------------- */

/* What is received of a TableSpec: the shard stands there in fields of its own. */
typedef struct
{
  TpsTableSpec spec;
  gint64 rows;
  gint64 first_row;
  gint64 shard_rows;
  gint32 shard_index;
  gint32 shard_count;
} ReceivedSpec;

static gboolean
read_dtype (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 dtype = tps_reader_i32 (in);

  if (!tps_dtype_is_valid (dtype))
    return tps_field_refuse (path, error, "is %d, which is no DType", dtype);
  *(TpsDType *) target = (TpsDType) dtype;
  return TRUE;
}

static gboolean
read_rows (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint64 rows = tps_reader_i64 (in);

  *(gint64 *) target = rows;
  return rows >= 1 || tps_field_refuse (path, error, "is %" G_GINT64_FORMAT ", expected > 0", rows);
}

static gboolean
read_initializer_kind (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 kind = tps_reader_i32 (in);

  if (kind < TPS_INITIALIZER_ZEROS || kind > TPS_INITIALIZER_NORMAL)
    return tps_field_refuse (path, error, "is %d, which is no InitializerKind", kind);
  *(TpsInitializerKind *) target = (TpsInitializerKind) kind;
  return TRUE;
}

#define INITIALIZER_NUMBER(number, field)                                            \
  {                                                                                  \
    .name = #field, .id = number, .type = TPS_WIRE_DOUBLE,                           \
    .offset = G_STRUCT_OFFSET (TpsInitializer, field), .read = tps_field_read_finite \
  }

static const TpsFieldSpec initializer_fields[] = {
  { "kind", 1, TPS_WIRE_I32, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsInitializer, kind),
    .read = read_initializer_kind },
  INITIALIZER_NUMBER (2, low),
  INITIALIZER_NUMBER (3, high),
  INITIALIZER_NUMBER (4, mean),
  INITIALIZER_NUMBER (5, stdev),
  { "seed", 6, TPS_WIRE_I64, .offset = G_STRUCT_OFFSET (TpsInitializer, seed) },
  { NULL },
};

static gboolean
read_initializer (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_fields_read (in, path, initializer_fields, target, NULL, error);
}

static gboolean
read_optimizer (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_optimizer_spec_decode (in, path, target, error);
}

static gboolean
read_device (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  g_autofree gchar *name = NULL;

  if (!tps_field_read_name (in, path, &name, error))
    return FALSE;
  if (g_strlcpy (target, name, TPS_TABLE_PLACE_MAX_DEVICE + 1) <= TPS_TABLE_PLACE_MAX_DEVICE)
    return TRUE;
  return tps_field_refuse (path, error, "is longer than any device's name, %d characters",
                           TPS_TABLE_PLACE_MAX_DEVICE);
}

#define SPEC_FIELD(number, wire_type, field, member, ...)         \
  {                                                               \
    .name = field, .id = number, .type = TPS_WIRE_##wire_type,    \
    .offset = G_STRUCT_OFFSET (ReceivedSpec, member), __VA_ARGS__ \
  }

static const TpsFieldSpec spec_fields[] = {
  SPEC_FIELD (1, BINARY, "name", spec.name, .required = TRUE, .read = tps_field_read_name),
  SPEC_FIELD (2, I64, "rows", rows, .required = TRUE, .read = read_rows),
  SPEC_FIELD (3, I32, "dim", spec.dim, .required = TRUE),
  SPEC_FIELD (4, I32, "dtype", spec.dtype, .required = TRUE, .read = read_dtype),
  SPEC_FIELD (5, STRUCT, "initializer", spec.initializer, .read = read_initializer),
  SPEC_FIELD (6, STRUCT, "optimizer", spec.optimizer, .read = read_optimizer),
  SPEC_FIELD (7, I64, "first_row", first_row),
  SPEC_FIELD (8, I64, "bytes", spec.bytes),
  SPEC_FIELD (9, I32, "shard_index", shard_index),
  SPEC_FIELD (10, I32, "shard_count", shard_count),
  SPEC_FIELD (11, I64, "shard_rows", shard_rows),
  SPEC_FIELD (12, BINARY, "device", spec.place.device, .read = read_device),
  SPEC_FIELD (13, BOOL, "host_memory", spec.place.is_host_memory),
  { NULL },
};

enum
{
  SPEC_HAS_FIRST_ROW = 1 << 6, /* bits of their rows */
  SPEC_HAS_SHARD_INDEX = 1 << 8,
  SPEC_HAS_SHARD_COUNT = 1 << 9,
  SPEC_HAS_SHARD_ROWS = 1 << 10,
};

/* Names what the runtime calls "first_row". */
static gboolean
prefix_path (const TpsFieldPath *path, gboolean ok, GError **error)
{
  g_autofree gchar *where = ok ? NULL : tps_field_path_to_string (path);

  if (!ok)
    g_prefix_error (error, "%s.", where);
  return ok;
}

static gboolean
init_hash_shard (TpsShard *shard, const ReceivedSpec *received, guint64 seen,
                 const TpsFieldPath *path, GError **error)
{
  const gboolean lacks_index = !(seen & SPEC_HAS_SHARD_INDEX);
  TpsFieldPath missing = { .parent = path, .name = lacks_index ? "shard_index" : "shard_count" };

  if (lacks_index || !(seen & SPEC_HAS_SHARD_COUNT))
    return tps_field_refuse (&missing, error, "is missing");
  if (seen & SPEC_HAS_FIRST_ROW)
    return tps_field_refuse (path, error, "has first_row and shard_count, expected one of them");
  return prefix_path (path,
                      tps_shard_init_hash (shard, received->rows, received->shard_index,
                                           received->shard_count, error),
                      error);
}

static gboolean
init_range_shard (TpsShard *shard, const ReceivedSpec *received, guint64 seen,
                  const TpsFieldPath *path, GError **error)
{
  gint64 n_rows = (seen & SPEC_HAS_SHARD_ROWS) ? received->shard_rows : -1;
  TpsFieldPath at = { .parent = path, .name = "shard_rows" };

  if ((seen & SPEC_HAS_SHARD_ROWS) && n_rows < 0) /* not the -1 of the function below */
    return tps_field_refuse (&at, error, "is %" G_GINT64_FORMAT ", expected >= 0", n_rows);
  return prefix_path (
      path, tps_shard_init_range (shard, received->rows, received->first_row, n_rows, error),
      error);
}

/* shard_rows says how many rows a range has; of other shards it only repeats what is known. */
static gboolean
check_shard_rows (const TpsShard *shard, const ReceivedSpec *received, guint64 seen,
                  const TpsFieldPath *path, GError **error)
{
  TpsFieldPath at = { .parent = path, .name = "shard_rows" };

  if (!(seen & SPEC_HAS_SHARD_ROWS) || received->shard_rows == shard->n_rows)
    return TRUE;
  return tps_field_refuse (
      &at, error, "is %" G_GINT64_FORMAT ", but without first_row there are %" G_GINT64_FORMAT,
      received->shard_rows, shard->n_rows);
}

static gboolean
init_shard (TpsShard *shard, const ReceivedSpec *received, guint64 seen, const TpsFieldPath *path,
            GError **error)
{
  if (seen & (SPEC_HAS_SHARD_INDEX | SPEC_HAS_SHARD_COUNT))
    return init_hash_shard (shard, received, seen, path, error)
           && check_shard_rows (shard, received, seen, path, error);
  if (seen & SPEC_HAS_FIRST_ROW)
    return init_range_shard (shard, received, seen, path, error);
  tps_shard_init_whole (shard, received->rows);
  return check_shard_rows (shard, received, seen, path, error);
}

/* Replaces `spec`, which is zero or valid before. */
static gboolean
decode_spec (TpsReader *in, const TpsFieldPath *path, TpsTableSpec *spec, GError **error)
{
  ReceivedSpec received = { 0 };
  guint64 seen;
  gboolean ok;

  tps_table_spec_init (&received.spec, NULL, 1, 0); /* for what is absent */
  ok = tps_fields_read (in, path, spec_fields, &received, &seen, error)
       && init_shard (&received.spec.shard, &received, seen, path, error);
  tps_table_spec_clear (spec);
  *spec = received.spec;
  return ok;
}

static gboolean
read_spec (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return decode_spec (in, path, target, error);
}

static const TpsFieldSpec create_table_fields[] = {
  { "spec", 1, TPS_WIRE_STRUCT, .required = TRUE, .read = read_spec },
  { NULL },
};

gboolean
tps_create_table_arguments_decode (TpsReader *in, TpsTableSpec *spec, GError **error)
{
  return tps_fields_read (in, NULL, create_table_fields, spec, NULL, error);
}

static void
clear_spec (gpointer spec)
{
  tps_table_spec_clear (spec);
}

/* The array grows with what is read: a struct of the wire may be a byte, ours are not. */
static gboolean
read_specs (TpsReader *in, const TpsFieldPath *path, GArray *specs, GError **error)
{
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };

      g_array_set_size (specs, i + 1); /* zeroed */
      if (!decode_spec (in, &at, &g_array_index (specs, TpsTableSpec, i), error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tps_list_tables_result_decode (TpsReader *in, TpsWireType type, gpointer target, GError **error)
{
  TpsFieldPath path = { .name = "tables" };
  g_autoptr (GArray) specs = g_array_new (FALSE, TRUE, sizeof (TpsTableSpec));

  g_array_set_clear_func (specs, clear_spec);
  *(GArray **) target = NULL;
  if (!tps_field_check_type (&path, type, TPS_WIRE_LIST, error)
      || !read_specs (in, &path, specs, error))
    return FALSE;
  *(GArray **) target = g_steal_pointer (&specs);
  return TRUE;
}

static const TpsFieldSpec drop_table_fields[] = {
  { "table", 1, TPS_WIRE_BINARY, .required = TRUE, .read = tps_field_read_name },
  { NULL },
};

gboolean
tps_drop_table_arguments_decode (TpsReader *in, gchar **table, GError **error)
{
  return tps_fields_read (in, NULL, drop_table_fields, table, NULL, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void
encode_said (TpsWriter *out, gint16 id, gdouble value)
{
  if (isnan (value))
    return;
  tps_writer_field (out, id, TPS_WIRE_DOUBLE);
  tps_writer_double (out, value);
}

static void
encode_initializer (TpsWriter *out, const TpsInitializer *initializer)
{
  tps_writer_field (out, 5, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_i32 (out, 1, (gint32) initializer->kind);
  encode_said (out, 2, initializer->low);
  encode_said (out, 3, initializer->high);
  encode_said (out, 4, initializer->mean);
  encode_said (out, 5, initializer->stdev);
  tps_field_write_i64 (out, 6, initializer->seed);
  tps_writer_struct_end (out);
}

static void
encode_shard (TpsWriter *out, const TpsShard *shard)
{
  if (shard->kind == TPS_SHARD_HASH)
    {
      tps_field_write_i32 (out, 9, shard->index);
      tps_field_write_i32 (out, 10, shard->count);
    }
  if (shard->kind != TPS_SHARD_WHOLE)
    tps_field_write_i64 (out, 11, shard->n_rows);
}

static void
encode_place (TpsWriter *out, const TpsTablePlace *place)
{
  if (place->device[0] != '\0')
    tps_field_write_string (out, 12, place->device);
  if (place->is_host_memory)
    {
      tps_writer_field (out, 13, TPS_WIRE_BOOL);
      tps_writer_bool (out, TRUE);
    }
}

static void
encode_spec (TpsWriter *out, const TpsTableSpec *spec)
{
  tps_writer_struct_begin (out);
  tps_field_write_string (out, 1, spec->name);
  tps_field_write_i64 (out, 2, spec->shard.rows);
  tps_field_write_i32 (out, 3, spec->dim);
  tps_field_write_i32 (out, 4, (gint32) spec->dtype);
  encode_initializer (out, &spec->initializer);
  tps_writer_field (out, 6, TPS_WIRE_STRUCT);
  tps_optimizer_spec_encode (out, &spec->optimizer);
  if (spec->shard.kind == TPS_SHARD_RANGE)
    tps_field_write_i64 (out, 7, spec->shard.first_row);
  if (spec->bytes > 0)
    tps_field_write_i64 (out, 8, spec->bytes);
  encode_shard (out, &spec->shard);
  encode_place (out, &spec->place);
  tps_writer_struct_end (out);
}

void
tps_create_table_arguments_encode (TpsWriter *out, gconstpointer spec)
{
  tps_writer_field (out, 1, TPS_WIRE_STRUCT);
  encode_spec (out, spec);
}

void
tps_list_tables_result_encode (TpsWriter *out, gconstpointer data)
{
  const GArray *specs = data;

  tps_writer_field (out, 0, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, specs->len);
  for (guint i = 0; i < specs->len; i++)
    encode_spec (out, &g_array_index (specs, TpsTableSpec, i));
}

void
tps_drop_table_arguments_encode (TpsWriter *out, gconstpointer table)
{
  tps_field_write_string (out, 1, table);
}
