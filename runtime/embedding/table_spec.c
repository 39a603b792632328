/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/table_spec.h"

#include <math.h>
#include <string.h>

#include "runtime/embedding/initializer.h"
#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"

#define MAX_NAME 255
#define DEFAULT_LEARNING_RATE 0.01
#define IN_HOST_MEMORY "/host"

void
tps_table_spec_init (TpsTableSpec *spec, const gchar *name, gint64 rows, gint32 dim)
{
  *spec = (TpsTableSpec) {
    .name = g_strdup (name),
    .dim = dim,
    .dtype = TPS_DTYPE_FLOAT32,
    .rounding = TPS_ROUNDING_NEAREST,
    .initializer = { .kind = TPS_INITIALIZER_NORMAL,
                     .low = NAN,
                     .high = NAN,
                     .mean = NAN,
                     .stdev = NAN },
    .optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, DEFAULT_LEARNING_RATE),
  };
  tps_shard_init_whole (&spec->shard, rows);
}

void
tps_table_spec_copy (TpsTableSpec *spec, const TpsTableSpec *other)
{
  *spec = *other;
  spec->name = g_strdup (other->name);
  spec->tenant = g_strdup (other->tenant);
}

void
tps_table_spec_clear (TpsTableSpec *spec)
{
  g_free (spec->name);
  g_free (spec->tenant);
  memset (spec, 0, sizeof *spec);
}

gboolean
tps_table_specs_add (TpsTableSpecs *specs, const TpsTableSpec *spec, GError **error)
{
  gpointer elems = specs->specs;
  TpsTableSpec *added = tps_growing_array_add (&elems, &specs->n_specs, sizeof *spec, error);

  specs->specs = elems;
  if (added != NULL)
    tps_table_spec_copy (added, spec);
  return added != NULL;
}

void
tps_table_specs_clear (TpsTableSpecs *specs)
{
  for (guint i = 0; i < specs->n_specs; i++)
    tps_table_spec_clear (&specs->specs[i]);
  g_free (specs->specs);
  *specs = (TpsTableSpecs) { 0 };
}

/* -- checks -- */

static gboolean
is_name (const gchar *name)
{
  gsize length = name != NULL ? strlen (name) : 0;

  if (length < 1 || length > MAX_NAME)
    return FALSE;
  for (gsize i = 0; i < length; i++)
    if (!g_ascii_isalnum (name[i]) && strchr ("_.:/-", name[i]) == NULL)
      return FALSE;
  return TRUE;
}

static gboolean
is_row_dtype (TpsDType dtype)
{
  return dtype == TPS_DTYPE_FLOAT32 || dtype == TPS_DTYPE_FLOAT16 || dtype == TPS_DTYPE_BFLOAT16;
}

const gchar *
tps_rounding_name (TpsRounding rounding)
{
  switch (rounding)
    {
    case TPS_ROUNDING_NEAREST:
      return "NEAREST";
    case TPS_ROUNDING_STOCHASTIC:
      return "STOCHASTIC";
    }
  return NULL;
}

/* Must be called after the check of the dtype. */
static gboolean
check_rounding (const TpsTableSpec *spec, GError **error)
{
  if (spec->rounding != 0 && tps_rounding_name (spec->rounding) == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.rounding: %d, expected NEAREST or STOCHASTIC", (gint) spec->rounding);
      return FALSE;
    }
  if (spec->rounding == TPS_ROUNDING_STOCHASTIC && spec->dtype == TPS_DTYPE_FLOAT32)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.rounding: STOCHASTIC, but rows of FLOAT32 are not rounded; expected "
                   "NEAREST, or spec.dtype FLOAT16 or BFLOAT16");
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_fields (const TpsTableSpec *spec, GError **error)
{
  if (!is_name (spec->name))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.name: \"%.64s\", expected [A-Za-z0-9_.:/-]{1,255}",
                   spec->name != NULL ? spec->name : "");
      return FALSE;
    }
  if (spec->dim < 1)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.dim: %d, expected at least 1", spec->dim);
      return FALSE;
    }
  if (spec->durability != 0
      && (spec->durability < TPS_DURABILITY_NONE || spec->durability > TPS_DURABILITY_COMMIT))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.durability: %d, expected NONE, INTERVAL or COMMIT",
                   (gint) spec->durability);
      return FALSE;
    }
  if (!is_row_dtype (spec->dtype))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.dtype: %s (%d), expected FLOAT32, FLOAT16 or BFLOAT16",
                   tps_dtype_name (spec->dtype), (gint) spec->dtype);
      return FALSE;
    }
  return check_rounding (spec, error);
}

static gboolean
resolve_place (TpsTablePlace *place, GError **error)
{
  if (g_str_equal (place->device, "cuda"))
    g_strlcpy (place->device, "cuda:0", sizeof place->device);
  if (!place->is_host_memory)
    return TRUE;
  if (place->device[0] != '\0' && !g_str_equal (place->device, "cpu"))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "spec.host_memory: requires a named device other than the CPU, spec.device is "
               "\"%s\"",
               place->device);
  return FALSE;
}

/* Checks the parameters of a shard by building a second shard from them. */
static gboolean
check_shard (const TpsShard *shard, GError **error)
{
  TpsShard again = { 0 };
  gboolean ok = TRUE;

  switch (shard->kind)
    {
    case TPS_SHARD_WHOLE:
      ok = tps_shard_init_range (&again, shard->rows, 0, -1, error);
      again.kind = TPS_SHARD_WHOLE;
      break;
    case TPS_SHARD_RANGE:
      ok = tps_shard_init_range (&again, shard->rows, shard->first_row, shard->n_rows, error);
      break;
    case TPS_SHARD_HASH:
      ok = tps_shard_init_hash (&again, shard->rows, shard->index, shard->count, error);
      break;
    }
  if (!ok)
    {
      g_prefix_error (error, "spec.");
      return FALSE;
    }
  if (!tps_shard_equal (shard, &again))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.shard: not made by tps_shard_init_whole(), _range() or _hash()");
      return FALSE;
    }
  return TRUE;
}

/* Computes the size of the table. Returns FALSE if the size is too large. The other fields must
 * have been checked. */
static gboolean
count_bytes (const TpsTableSpec *spec, gsize *n_bytes)
{
  gsize rows = (gsize) spec->shard.n_rows;
  gsize state = tps_optimizer_state_per_row (&spec->optimizer, (gsize) spec->dim);
  gsize row_bytes = (gsize) spec->dim * tps_dtype_size (spec->dtype) + state * sizeof (gfloat);

  return !__builtin_mul_overflow (rows, row_bytes, n_bytes) && *n_bytes <= G_MAXINT64;
}

gboolean
tps_table_spec_resolve (TpsTableSpec *spec, GError **error)
{
  TpsTableSpec resolved = *spec;
  gsize n_bytes;

  if (!check_fields (spec, error) || !check_shard (&spec->shard, error)
      || !tps_initializer_resolve (&resolved.initializer, spec->dtype, "spec.initializer", error)
      || !tps_optimizer_spec_resolve (&resolved.optimizer, "spec.optimizer", error)
      || !resolve_place (&resolved.place, error))
    return FALSE;
  if (resolved.rounding == 0)
    resolved.rounding = TPS_ROUNDING_NEAREST;
  /* Without random numbers, the seed has no effect. Specifications that differ only in the seed
   * must then be equal. */
  if (resolved.initializer.kind == TPS_INITIALIZER_ZEROS
      && resolved.rounding != TPS_ROUNDING_STOCHASTIC)
    resolved.initializer.seed = 0;
  if (!count_bytes (&resolved, &n_bytes))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.rows: the size of %" G_GINT64_FORMAT " rows of dim %d exceeds 64 bits",
                   spec->shard.n_rows, spec->dim);
      return FALSE;
    }
  *spec = resolved;
  return TRUE;
}

gsize
tps_table_spec_get_bytes (const TpsTableSpec *spec)
{
  gsize n_bytes = 0;

  count_bytes (spec, &n_bytes);
  return n_bytes;
}

TpsRowRounding
tps_table_spec_get_rounding (const TpsTableSpec *spec)
{
  TpsRowRounding rounding = {
    .is_stochastic = spec->rounding == TPS_ROUNDING_STOCHASTIC,
    .seed = spec->initializer.seed,
  };

  tps_shard_get_numbers (&spec->shard, &rounding.first, &rounding.stride);
  return rounding;
}

/* -- comparison -- */

static gchar *
shard_to_string (const TpsShard *shard)
{
  switch (shard->kind)
    {
    case TPS_SHARD_WHOLE:
      return g_strdup ("the whole table");
    case TPS_SHARD_RANGE:
      return g_strdup_printf ("%" G_GINT64_FORMAT " rows from %" G_GINT64_FORMAT " on",
                              shard->n_rows, shard->first_row);
    case TPS_SHARD_HASH:
      return g_strdup_printf ("shard %d of %d", shard->index, shard->count);
    }
  g_assert_not_reached ();
}

static gchar *
shard_difference (const TpsShard *a, const TpsShard *b)
{
  g_autofree gchar *left = NULL, *right = NULL;

  if (a->rows != b->rows)
    return g_strdup_printf ("rows: %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT, a->rows, b->rows);
  if (tps_shard_equal (a, b))
    return NULL;
  left = shard_to_string (a);
  right = shard_to_string (b);
  return g_strdup_printf ("shard: %s, not %s", left, right);
}

gchar *
tps_table_place_to_string (const TpsTablePlace *place)
{
  return g_strconcat (place->device, place->is_host_memory ? IN_HOST_MEMORY : "", NULL);
}

gboolean
tps_table_place_parse (const gchar *text, TpsTablePlace *place)
{
  TpsTablePlace parsed = { .is_host_memory = g_str_has_suffix (text, IN_HOST_MEMORY) };
  gsize n_device = strlen (text) - (parsed.is_host_memory ? strlen (IN_HOST_MEMORY) : 0);

  if (n_device < 1 || n_device > TPS_TABLE_PLACE_MAX_DEVICE || !is_name (text))
    return FALSE;
  memcpy (parsed.device, text, n_device);
  if (!resolve_place (&parsed, NULL))
    return FALSE;
  *place = parsed;
  return TRUE;
}

static gchar *
place_difference (const TpsTablePlace *a, const TpsTablePlace *b)
{
  g_autofree gchar *left = NULL, *right = NULL;

  if (a->device[0] == '\0' || b->device[0] == '\0'
      || (g_str_equal (a->device, b->device) && a->is_host_memory == b->is_host_memory))
    return NULL;
  left = tps_table_place_to_string (a);
  right = tps_table_place_to_string (b);
  return g_strdup_printf ("device: %s, not %s", left, right);
}

static gchar *
durability_difference (TpsDurability a, TpsDurability b)
{
  if (a == 0 || b == 0 || a == b)
    return NULL;
  return g_strdup_printf ("durability: %s, not %s", tps_durability_name (a),
                          tps_durability_name (b));
}

gchar *
tps_table_spec_dup_difference (const TpsTableSpec *a, const TpsTableSpec *b)
{
  gchar *difference = shard_difference (&a->shard, &b->shard);

  if (difference != NULL)
    return difference;
  if (!g_str_equal (a->name, b->name))
    return g_strdup_printf ("name: %s, not %s", a->name, b->name);
  if (a->dim != b->dim)
    return g_strdup_printf ("dim: %d, not %d", a->dim, b->dim);
  if (a->dtype != b->dtype)
    return g_strdup_printf ("dtype: %s, not %s", tps_dtype_name (a->dtype),
                            tps_dtype_name (b->dtype));
  if (a->rounding != b->rounding)
    return g_strdup_printf ("rounding: %s, not %s", tps_rounding_name (a->rounding),
                            tps_rounding_name (b->rounding));
  difference = tps_initializer_dup_difference (&a->initializer, &b->initializer);
  if (difference != NULL)
    {
      g_autofree gchar *inner = difference;

      return g_strconcat ("initializer.", inner, NULL);
    }
  if (!tps_optimizer_spec_equal (&a->optimizer, &b->optimizer))
    return g_strdup_printf ("optimizer: %s of learning rate %g, not %s of %g, or other factors",
                            tps_optimizer_kind_name (a->optimizer.kind), a->optimizer.learning_rate,
                            tps_optimizer_kind_name (b->optimizer.kind),
                            b->optimizer.learning_rate);
  difference = place_difference (&a->place, &b->place);
  return difference != NULL ? difference : durability_difference (a->durability, b->durability);
}

gboolean
tps_table_spec_equal (const TpsTableSpec *a, const TpsTableSpec *b)
{
  g_autofree gchar *difference = tps_table_spec_dup_difference (a, b);

  return difference == NULL;
}
