/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The descriptors of TableSpec, and of the methods that create, list and drop tables. */

#include "plugin/wire/wire_embedding_table.h"

#define SERVICE "EmbeddingTable"

/* ---- Initializer ---------------------------------------------------------------------------- */

static const TpsEnumValue initializer_kinds[] = {
  { "ZEROS", TPS_INITIALIZER_ZEROS },
  { "UNIFORM", TPS_INITIALIZER_UNIFORM },
  { "NORMAL", TPS_INITIALIZER_NORMAL },
  { NULL },
};

static const TpsEnum initializer_kind_enum = { "InitializerKind", initializer_kinds };

#define NUMBER(id, field)                                                                          \
  {                                                                                                \
#field, id, TPS_FIELD_OPTIONAL, &tps_kind_finite, NULL, G_STRUCT_OFFSET(TpsInitializer, field) \
  }

static const TpsField initializer_fields[] = {
  { "kind", 1, TPS_FIELD_REQUIRED, &tps_kind_enum, &initializer_kind_enum,
    G_STRUCT_OFFSET (TpsInitializer, kind) },
  NUMBER (2, low),
  NUMBER (3, high),
  NUMBER (4, mean),
  NUMBER (5, stdev),
  { "seed", 6, TPS_FIELD_DEFAULT, &tps_kind_i64, NULL, G_STRUCT_OFFSET (TpsInitializer, seed) },
  { NULL },
};

static const TpsStruct initializer_struct = { "Initializer", initializer_fields };

/* ---- Durability ----------------------------------------------------------------------------- */

static const TpsEnumValue durabilities[] = {
  { "NONE", TPS_DURABILITY_NONE },
  { "INTERVAL", TPS_DURABILITY_INTERVAL },
  { "COMMIT", TPS_DURABILITY_COMMIT },
  { NULL },
};

static const TpsEnum durability_enum = { "DurabilityMode", durabilities };

/* ---- Rounding ------------------------------------------------------------------------------- */

static const TpsEnumValue roundings[] = {
  { "NEAREST", TPS_ROUNDING_NEAREST },
  { "STOCHASTIC", TPS_ROUNDING_STOCHASTIC },
  { NULL },
};

static const TpsEnum rounding_enum = { "Rounding", roundings };

/* ---- TableSpec ------------------------------------------------------------------------------ */

/* The form of a TableSpec on the wire, in which the fields of the shard are fields of the spec. */
typedef struct
{
  TpsTableSpec spec;
  gboolean has_first_row;
  gint64 first_row;
  gboolean has_shard_index;
  gint32 shard_index;
  gboolean has_shard_count;
  gint32 shard_count;
  gboolean has_shard_rows;
  gint64 shard_rows;
  gint64 rows;
} WireSpec;

static const TpsLimit above_zero = { 1, "> 0" };

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

static const TpsValueKind device_kind = { TPS_WIRE_BINARY, "string", read_device, write_device,
                                          is_device_set };

#define SPEC(id, name, member, presence, kind, of)                    \
  {                                                                   \
    name, id, presence, &kind, of, G_STRUCT_OFFSET (WireSpec, member) \
  }

#define SHARD(id, name, kind)                                                    \
  {                                                                              \
#name, id, TPS_FIELD_OPTIONAL, &kind, NULL, G_STRUCT_OFFSET(WireSpec, name), \
        G_STRUCT_OFFSET(WireSpec, has_##name)                                    \
  }

static const TpsField spec_fields[] = {
  SPEC (1, "name", spec.name, TPS_FIELD_REQUIRED, tps_kind_name, NULL),
  SPEC (2, "rows", rows, TPS_FIELD_REQUIRED, tps_kind_i64, &above_zero),
  SPEC (3, "dim", spec.dim, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  SPEC (4, "dtype", spec.dtype, TPS_FIELD_REQUIRED, tps_kind_enum, &tps_dtype_enum),
  SPEC (5, "initializer", spec.initializer, TPS_FIELD_OPTIONAL, tps_kind_struct,
        &initializer_struct),
  SPEC (6, "optimizer", spec.optimizer, TPS_FIELD_OPTIONAL, tps_kind_struct, &tps_optimizer_struct),
  SHARD (7, first_row, tps_kind_i64),
  SPEC (8, "bytes", spec.bytes, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL),
  SHARD (9, shard_index, tps_kind_i32),
  SHARD (10, shard_count, tps_kind_i32),
  SHARD (11, shard_rows, tps_kind_i64),
  SPEC (12, "device", spec.place.device, TPS_FIELD_OPTIONAL, device_kind, NULL),
  SPEC (13, "host_memory", spec.place.is_host_memory, TPS_FIELD_OPTIONAL, tps_kind_bool, NULL),
  SPEC (14, "durability", spec.durability, TPS_FIELD_OPTIONAL, tps_kind_enum, &durability_enum),
  SPEC (15, "rounding", spec.rounding, TPS_FIELD_OPTIONAL, tps_kind_enum, &rounding_enum),
  { NULL },
};

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
init_hash_shard (TpsShard *shard, const WireSpec *wire, const TpsFieldPath *path, GError **error)
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
init_range_shard (TpsShard *shard, const WireSpec *wire, const TpsFieldPath *path, GError **error)
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
check_shard_rows (const TpsShard *shard, const WireSpec *wire, const TpsFieldPath *path,
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
init_shard (TpsShard *shard, const WireSpec *wire, const TpsFieldPath *path, GError **error)
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
static gboolean
read_spec (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsTableSpec *spec = target;
  WireSpec wire = { 0 };
  gboolean ok;

  tps_table_spec_init (&wire.spec, NULL, 1, 0); /* sets defaults for absent fields */
  ok = tps_fields_read (spec_fields, in, path, &wire, NULL, error)
       && init_shard (&wire.spec.shard, &wire, path, error);
  tps_table_spec_clear (spec);
  *spec = wire.spec;
  return ok;
}

static void
write_spec (TpsWriter *out, gconstpointer source)
{
  const TpsTableSpec *spec = source;
  const TpsShard *shard = &spec->shard;
  WireSpec wire = {
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
  tps_fields_write (spec_fields, out, &wire);
  tps_writer_struct_end (out);
}

const TpsStruct tps_table_spec_struct = { "TableSpec", spec_fields, read_spec, write_spec };

/* ---- methods -------------------------------------------------------------------------------- */

const TpsList tps_table_spec_list = {
  .elem = { .kind = &tps_kind_struct, .of = &tps_table_spec_struct },
  .form = TPS_LIST_COUNTED,
  .elem_size = sizeof (TpsTableSpec),
};

static const TpsField create_arguments[] = {
  { "spec", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_table_spec_struct },
  { NULL },
};

static const TpsField drop_arguments[] = {
  { "table", 1, TPS_FIELD_REQUIRED, &tps_kind_name },
  { NULL },
};

static const TpsField tables_result = { "tables", .kind = &tps_kind_list,
                                        .of = &tps_table_spec_list };

const TpsRpc tps_create_table_rpc = { SERVICE, "create_table", create_arguments };
const TpsRpc tps_list_tables_rpc = { SERVICE, "list_tables", .result = &tables_result };
const TpsRpc tps_drop_table_rpc = { SERVICE, "drop_table", drop_arguments };
