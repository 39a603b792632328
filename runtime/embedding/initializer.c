/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Values are drawn as FLOAT64 from the random-number stream of the row, and rounded once to the
 * type of the table. */

#include "runtime/embedding/initializer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"

/* After this number of draws outside the bounds, the value is clamped to the nearer bound. */
#define MAX_DRAWS 64
#define MAX_DEVIATIONS \
  15 /* limit of a normal number, in standard deviations; the polar method of rng.c ends at 12.01 */

#define BLOCK 256

typedef struct
{
  const gchar *name;
  gsize offset;
} Field;

static const Field fields[] = {
  { "low", G_STRUCT_OFFSET (TpsInitializer, low) },
  { "high", G_STRUCT_OFFSET (TpsInitializer, high) },
  { "mean", G_STRUCT_OFFSET (TpsInitializer, mean) },
  { "stdev", G_STRUCT_OFFSET (TpsInitializer, stdev) },
};

/* A kind, with the fields that it uses and the defaults of all fields, in the order of fields[]. */
typedef struct
{
  const gchar *name;
  gboolean is_used[G_N_ELEMENTS (fields)];
  gdouble not_said[G_N_ELEMENTS (fields)];
} Kind;

static const Kind kinds[] = {
  [TPS_INITIALIZER_ZEROS] = { "ZEROS", { FALSE }, { NAN, NAN, NAN, NAN } },
  [TPS_INITIALIZER_UNIFORM] = { "UNIFORM", { TRUE, TRUE }, { 0, 1, NAN, NAN } },
  [TPS_INITIALIZER_NORMAL] = { "NORMAL", { TRUE, TRUE, TRUE, TRUE }, { NAN, NAN, 0, 1 } },
};

const gchar *
tps_initializer_kind_name (TpsInitializerKind kind)
{
  return (guint) kind < G_N_ELEMENTS (kinds) ? kinds[kind].name : NULL;
}

static gdouble *
value_of (TpsInitializer *initializer, gsize field)
{
  return &G_STRUCT_MEMBER (gdouble, initializer, fields[field].offset);
}

/* -- checks -- */

/* Returns the largest finite value of a table's element type. */
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
  gdouble *value = value_of (initializer, field);

  if (!kind->is_used[field] && !isnan (*value) && *value != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, but %s has none", what,
                   fields[field].name, *value, kind->name);
      return FALSE;
    }
  if (!kind->is_used[field] || isnan (*value))
    *value = kind->not_said[field];
  if (fabs (*value) > get_largest (dtype))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, expected a finite %s",
                   what, fields[field].name, *value, tps_dtype_name (dtype));
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_range (const TpsInitializer *initializer, TpsDType dtype, const gchar *what, GError **error)
{
  if (initializer->low > initializer->high)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.low: %g is above high, %g",
                   what, initializer->low, initializer->high);
      return FALSE;
    }
  /* No drawn value is farther from the mean than this. */
  if (fabs (initializer->mean) + MAX_DEVIATIONS * initializer->stdev > get_largest (dtype))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "%s.stdev: %g, values %d standard deviations from the mean are infinite as %s",
                   what, initializer->stdev, MAX_DEVIATIONS, tps_dtype_name (dtype));
      return FALSE;
    }
  if (initializer->stdev < 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.stdev: %g, expected 0 or more",
                   what, initializer->stdev);
      return FALSE;
    }
  return TRUE;
}

gboolean
tps_initializer_resolve (TpsInitializer *initializer, TpsDType dtype, const gchar *what,
                         GError **error)
{
  TpsInitializer resolved = *initializer;

  if (tps_initializer_kind_name (initializer->kind) == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.kind: unknown initializer %d",
                   what, (gint) initializer->kind);
      return FALSE;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    if (!resolve_field (&resolved, i, dtype, what, error))
      return FALSE;
  if (!check_range (&resolved, dtype, what, error))
    return FALSE;
  *initializer = resolved;
  return TRUE;
}

static gdouble
get_field (const TpsInitializer *initializer, gsize offset)
{
  return *(const gdouble *) (gconstpointer) ((const guint8 *) initializer + offset);
}

gchar *
tps_initializer_dup_difference (const TpsInitializer *a, const TpsInitializer *b)
{
  if (a->kind != b->kind)
    return g_strdup_printf ("kind: %s, not %s", kinds[a->kind].name, kinds[b->kind].name);
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    {
      gdouble x = get_field (a, fields[i].offset);
      gdouble y = get_field (b, fields[i].offset);

      if (x != y && !(isnan (x) && isnan (y)))
        return g_strdup_printf ("%s: %.17g, not %.17g", fields[i].name, x, y);
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
