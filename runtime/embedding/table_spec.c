/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/table_spec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"
#include "runtime/base/rng.h"
#include "runtime/device/cpu/kernels/elementwise.h"

/* -- initializer -- */

/* Values are drawn as FLOAT64 from the random-number stream of the row, and rounded once to the
 * type of the table. */

/* After this number of draws outside the bounds, the value is clamped to the nearer bound. */
#define MAX_DRAWS 64
#define MAX_DEVIATIONS \
  15 /* limit of a normal number, in standard deviations; the polar method of rng.c ends at 12.01 */

#define BLOCK 256

const TpsNumberField tps_initializer_numbers[TPS_INITIALIZER_N_NUMBERS] = {
  { "low", G_STRUCT_OFFSET (TpsInitializer, low) },
  { "high", G_STRUCT_OFFSET (TpsInitializer, high) },
  { "mean", G_STRUCT_OFFSET (TpsInitializer, mean) },
  { "stdev", G_STRUCT_OFFSET (TpsInitializer, stdev) },
};

/* A kind, with the numbers that it uses and the defaults of all numbers. */
typedef struct
{
  const gchar *name;
  gboolean is_used[TPS_INITIALIZER_N_NUMBERS];
  gdouble not_said[TPS_INITIALIZER_N_NUMBERS];
} Kind;

static const Kind kinds[] = {
  [TPS_INITIALIZER_ZEROS] = { "ZEROS", { FALSE }, { NAN, NAN, NAN, NAN } },
  [TPS_INITIALIZER_UNIFORM] = { "UNIFORM", { TRUE, TRUE }, { 0, 1, NAN, NAN } },
  [TPS_INITIALIZER_NORMAL] = { "NORMAL", { TRUE, TRUE, TRUE, TRUE }, { NAN, NAN, 0, 1 } },
};

/* -- checks -- */

static gdouble
get_largest (TpsDType dtype)
{
  switch (dtype)
    {
    case TPS_DTYPE_FLOAT16:
      return 65504;
    case TPS_DTYPE_BFLOAT16:
      return 0x1.fep127;
    default:
      return FLT_MAX;
    }
}

static gboolean
resolve_field (TpsInitializer *initializer, gsize field, TpsDType dtype, const gchar *what,
               GError **error)
{
  const Kind *kind = &kinds[initializer->kind];
  gdouble *value = &G_STRUCT_MEMBER (gdouble, initializer, tps_initializer_numbers[field].offset);

  if (!kind->is_used[field] && !isnan (*value) && *value != 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, but %s has none", what,
                     tps_initializer_numbers[field].name, *value, kind->name);
  if (!kind->is_used[field] || isnan (*value))
    *value = kind->not_said[field];
  if (fabs (*value) > get_largest (dtype))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, expected a finite %s", what,
                     tps_initializer_numbers[field].name, *value, tps_dtype_name (dtype));
  return TRUE;
}

static gboolean
check_range (const TpsInitializer *initializer, TpsDType dtype, const gchar *what, GError **error)
{
  if (initializer->low > initializer->high)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.low: %g is above high, %g", what,
                     initializer->low, initializer->high);
  /* No drawn value is farther from the mean than this. */
  if (fabs (initializer->mean) + MAX_DEVIATIONS * initializer->stdev > get_largest (dtype))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.stdev: %g, values %d standard deviations from the mean are infinite as %s",
                     what, initializer->stdev, MAX_DEVIATIONS, tps_dtype_name (dtype));
  if (initializer->stdev < 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.stdev: %g, expected 0 or more", what,
                     initializer->stdev);
  return TRUE;
}

/* Fills in the defaults and checks the initializer for rows of `dtype`: all values that it draws
 * must be finite. Fields that the kind does not use must be unset or 0, and become NAN; the seed of
 * ZEROS becomes 0. Errors: INVALID_ARGUMENT, "`what`.stdev: …". */
static gboolean
initializer_resolve (TpsInitializer *initializer, TpsDType dtype, const gchar *what, GError **error)
{
  TpsInitializer resolved = *initializer;

  if ((guint) initializer->kind >= G_N_ELEMENTS (kinds) || kinds[initializer->kind].name == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.kind: unknown initializer %d", what,
                     (gint) initializer->kind);
  for (gsize i = 0; i < TPS_INITIALIZER_N_NUMBERS; i++)
    if (!resolve_field (&resolved, i, dtype, what, error))
      return FALSE;
  if (!check_range (&resolved, dtype, what, error))
    return FALSE;
  *initializer = resolved;
  return TRUE;
}

static gdouble
get_number (const TpsInitializer *initializer, gsize i)
{
  const guint8 *bytes = (const guint8 *) initializer + tps_initializer_numbers[i].offset;

  return *(const gdouble *) (gconstpointer) bytes;
}

/* Names the first value that differs between two resolved initializers, "stdev: 1, not 2"; NULL if
 * they are equal. The caller must free the string with g_free(). */
static gchar *
initializer_dup_difference (const TpsInitializer *a, const TpsInitializer *b)
{
  if (a->kind != b->kind)
    return g_strdup_printf ("kind: %s, not %s", kinds[a->kind].name, kinds[b->kind].name);
  for (gsize i = 0; i < TPS_INITIALIZER_N_NUMBERS; i++)
    {
      gdouble x = get_number (a, i), y = get_number (b, i);

      if (x != y && !(isnan (x) && isnan (y)))
        return g_strdup_printf ("%s: %.17g, not %.17g", tps_initializer_numbers[i].name, x, y);
    }
  if (a->seed != b->seed)
    return g_strdup_printf ("seed: %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT, a->seed, b->seed);
  return NULL;
}

/* -- values -- */

static gdouble
draw_normal (const TpsInitializer *initializer, TpsRng *rng)
{
  gdouble value = initializer->mean;

  for (guint i = 0; i < MAX_DRAWS; i++)
    {
      value = initializer->mean + initializer->stdev * tps_rng_next_normal (rng);
      /* An unset bound is NAN, for which both comparisons are false. */
      if (!(value < initializer->low) && !(value > initializer->high))
        return value;
    }
  return value < initializer->low ? initializer->low : initializer->high;
}

static void
draw (const TpsInitializer *initializer, TpsRng *rng, gdouble *values, gsize n)
{
  gdouble width = initializer->high - initializer->low;

  if (initializer->kind == TPS_INITIALIZER_NORMAL)
    for (gsize i = 0; i < n; i++)
      values[i] = draw_normal (initializer, rng);
  else
    for (gsize i = 0; i < n; i++)
      values[i] = initializer->low + width * tps_rng_next_double (rng);
}

void
tps_initializer_fill_row (const TpsInitializer *initializer, gint64 row, TpsDType dtype,
                          gpointer values, gsize dim)
{
  gsize element = tps_dtype_size (dtype);
  gdouble block[BLOCK];
  TpsRng rng;

  if (initializer->kind == TPS_INITIALIZER_ZEROS)
    {
      memset (values, 0, dim * element);
      return;
    }
  tps_rng_init (&rng, initializer->seed, (guint64) row);
  for (gsize d = 0; d < dim; d += BLOCK)
    {
      gsize n = MIN (BLOCK, dim - d);

      draw (initializer, &rng, block, n);
      tps_cpu_cast (dtype, (guint8 *) values + d * element, TPS_DTYPE_FLOAT64, block, n);
    }
}

/* -- table spec -- */

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

gboolean
tps_table_spec_init_from (TpsTableSpec *spec, const TpsRemoteTable *table, GError **error)
{
  tps_table_spec_init (spec, table->name, table->rows, table->dim);
  spec->durability = table->durability;
  if (table->dtype != 0)
    spec->dtype = table->dtype;
  if (table->rounding != 0)
    spec->rounding = table->rounding;
  if (table->initializer.kind != 0)
    spec->initializer = table->initializer;
  if (table->optimizer.kind != 0)
    spec->optimizer = table->optimizer;
  if (table->place == NULL || tps_table_place_parse (table->place, &spec->place))
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "table %s: \"%s\" is not a device, expected \"cpu\", \"cuda:0\" or \"cuda:0/host\"",
      table->name, table->place);
}

TpsRemoteTable *
tps_remote_table_new (const TpsTableSpec *spec)
{
  TpsRemoteTable *table = g_new (TpsRemoteTable, 1);

  *table = (TpsRemoteTable) {
    .size = sizeof *table,
    .name = g_strdup (spec->name),
    .rows = spec->shard.rows,
    .dim = spec->dim,
    .dtype = spec->dtype,
    .rounding = spec->rounding,
    .durability = spec->durability,
    .place = tps_table_place_to_string (&spec->place),
    .shard_kind = spec->shard.kind,
    .initializer = spec->initializer,
    .optimizer = spec->optimizer,
    .bytes = spec->bytes,
  };
  return table;
}

void
tps_remote_table_free (TpsRemoteTable *table)
{
  g_free ((gchar *) (gsize) table->name);
  g_free ((gchar *) (gsize) table->place);
  g_free (table);
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

static gboolean
check_fields (const TpsTableSpec *spec, GError **error)
{
  if (!is_name (spec->name))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.name: \"%.64s\", expected [A-Za-z0-9_.:/-]{1,255}",
                     spec->name != NULL ? spec->name : "");
  if (spec->dim < 1)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "spec.dim: %d, expected at least 1",
                     spec->dim);
  if (spec->durability != 0
      && (spec->durability < TPS_DURABILITY_NONE || spec->durability > TPS_DURABILITY_COMMIT))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.durability: %d, expected NONE, INTERVAL or COMMIT",
                     (gint) spec->durability);
  if (spec->dtype != TPS_DTYPE_FLOAT32 && spec->dtype != TPS_DTYPE_FLOAT16
      && spec->dtype != TPS_DTYPE_BFLOAT16)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.dtype: %s (%d), expected FLOAT32, FLOAT16 or BFLOAT16",
                     tps_dtype_name (spec->dtype), (gint) spec->dtype);
  if (spec->rounding != 0 && tps_rounding_name (spec->rounding) == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.rounding: %d, expected NEAREST or STOCHASTIC", (gint) spec->rounding);
  if (spec->rounding == TPS_ROUNDING_STOCHASTIC && spec->dtype == TPS_DTYPE_FLOAT32)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.rounding: STOCHASTIC, but rows of FLOAT32 are not rounded; expected "
                     "NEAREST, or spec.dtype FLOAT16 or BFLOAT16");
  return TRUE;
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
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.host_memory: requires a named device other than the CPU, spec.device is "
                   "\"%s\"",
                   place->device);
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
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.shard: not made by tps_shard_init_whole(), _range() or _hash()");
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
      || !initializer_resolve (&resolved.initializer, spec->dtype, "spec.initializer", error)
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
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "spec.rows: the size of %" G_GINT64_FORMAT " rows of dim %d exceeds 64 bits",
                     spec->shard.n_rows, spec->dim);
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
  difference = initializer_dup_difference (&a->initializer, &b->initializer);
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
  if (difference != NULL || a->durability == 0 || b->durability == 0
      || a->durability == b->durability)
    return difference;
  return g_strdup_printf ("durability: %s, not %s", tps_durability_name (a->durability),
                          tps_durability_name (b->durability));
}

/* ---- queries of bags ------------------------------------------------------------------------- */

static gboolean
check_vector (TpsTensorView view, TpsDType dtype, const gchar *what, const gchar *field,
              GError **error)
{
  g_autofree gchar *got = NULL;

  if (view.shape.dtype == dtype && view.shape.n_dims == 1
      && (view.data != NULL || view.shape.dims[0] == 0))
    return TRUE;
  if (view.shape.dtype == 0 || view.data == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: missing, expected a vector of %s",
                     what, field, tps_dtype_name (dtype));
  got = tps_shape_to_string (&view.shape);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %s, expected a vector of %s", what,
                   field, got, tps_dtype_name (dtype));
}

/* Reports the first invalid offset. At least one offset must be invalid. */
static gboolean
fail_at_offset (const gint64 *offsets, gint64 n_bags, gint64 n_indices, const gchar *what,
                GError **error)
{
  gint64 bag = 0;

  while (bag < n_bags && offsets[bag] >= (bag > 0 ? offsets[bag - 1] : 0)
         && offsets[bag] <= (bag > 0 ? n_indices : 0))
    bag++;
  if (bag == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.offsets[0]: %" G_GINT64_FORMAT ", expected 0", what, offsets[0]);
  if (offsets[bag] < offsets[bag - 1])
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.offsets[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT
                     " after %" G_GINT64_FORMAT " does not ascend",
                     what, bag, offsets[bag], offsets[bag - 1]);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s.offsets[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT
                   " is above the number of indices, %" G_GINT64_FORMAT,
                   what, bag, offsets[bag], n_indices);
}

static gboolean
check_offsets (const TpsBagQuery *query, const gchar *what, GError **error)
{
  const gint64 *offsets = query->offsets.data;
  gint64 n_bags = query->offsets.shape.dims[0];
  gint64 n_indices = query->indices.shape.dims[0];
  gboolean is_ascending = TRUE;

  if (n_bags == 0)
    {
      if (n_indices == 0)
        return TRUE;
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "%s.offsets: empty, but there are %" G_GINT64_FORMAT " indices", what,
                       n_indices);
    }
  for (gint64 bag = 1; bag < n_bags; bag++)
    is_ascending &= offsets[bag - 1] <= offsets[bag];
  if (is_ascending && offsets[0] == 0 && offsets[n_bags - 1] <= n_indices)
    return TRUE;
  return fail_at_offset (offsets, n_bags, n_indices, what, error);
}

static gboolean
check_weights (const TpsBagQuery *query, const gchar *what, GError **error)
{
  if (query->weights.shape.dtype == 0)
    return TRUE;
  if (query->pooling != TPS_POOLING_SUM)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.weights: only SUM takes weights, the pooling is %s", what,
                     query->pooling == TPS_POOLING_MEAN ? "MEAN" : "MAX");
  if (!check_vector (query->weights, TPS_DTYPE_FLOAT32, what, "weights", error))
    return FALSE;
  if (query->weights.shape.dims[0] != query->indices.shape.dims[0])
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.weights: %" G_GINT64_FORMAT " weights for %" G_GINT64_FORMAT " indices",
                     what, query->weights.shape.dims[0], query->indices.shape.dims[0]);
  return TRUE;
}

gboolean
tps_bag_query_check (const TpsBagQuery *query, const gchar *what, GError **error)
{
  if (query->table == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.table: missing", what);
  if ((gint) query->pooling < TPS_POOLING_SUM || (gint) query->pooling > TPS_POOLING_MAX)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.pooling: unknown pooling %d", what,
                     (gint) query->pooling);
  return check_vector (query->indices, TPS_DTYPE_INT64, what, "indices", error)
         && check_vector (query->offsets, TPS_DTYPE_INT64, what, "offsets", error)
         && check_offsets (query, what, error) && check_weights (query, what, error);
}
