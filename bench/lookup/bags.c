/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/bags.h"

#include "runtime/base/error.h"

#define SEED 7
#define N_SAMPLES 64
#define PERIOD 257 /* the period of the values, in rows and columns */

/* Returns the value of every table at a position. */
static gfloat
get_value (gsize row, gsize column)
{
  return (gfloat) ((row * 31 + column * 7) % PERIOD) / 256;
}

void
tps_lookup_fill_rows (gfloat *values, gsize first, gsize n, gsize dim, gfloat factor)
{
  for (gsize row = 0; row < n; row++)
    for (gsize column = 0; column < dim; column++)
      values[row * dim + column] = factor * get_value (first + row, column);
}

static gsize
indices_of_set (const TpsLookupShape *shape)
{
  return shape->n_bags * shape->bag_length;
}

/* Sums the elements of each row below PERIOD. The other rows repeat these rows. */
static void
sum_rows (gdouble *sums, gsize dim)
{
  for (gsize row = 0; row < PERIOD; row++)
    {
      sums[row] = 0;
      for (gsize column = 0; column < dim; column++)
        sums[row] += (gdouble) get_value (row, column);
    }
}

void
tps_lookup_bags_init (TpsLookupBags *bags, const TpsLookupShape *shape)
{
  gsize n = indices_of_set (shape);
  gdouble sums[PERIOD];
  g_autoptr (TpsLookupIdSource)
      source = tps_lookup_id_source_new (&shape->ids, shape->n_rows, SEED);

  bags->shape = *shape;
  bags->ids = g_new (gint64, shape->n_sets * n);
  bags->checksum = g_new0 (gdouble, shape->n_sets);
  bags->n_samples = MIN (n, N_SAMPLES);
  sum_rows (sums, shape->dim);
  for (gsize set = 0; set < shape->n_sets; set++)
    {
      gint64 *ids = bags->ids + set * n;

      tps_lookup_id_source_draw_each (source, ids, n);
      for (gsize i = 0; i < n; i++)
        bags->checksum[set] += sums[(gsize) ids[i] % PERIOD];
    }
}

void
tps_lookup_bags_clear (TpsLookupBags *bags)
{
  g_clear_pointer (&bags->ids, g_free);
  g_clear_pointer (&bags->checksum, g_free);
}

const gint64 *
tps_lookup_bags_get_ids (const TpsLookupBags *bags, gsize set)
{
  return bags->ids + set * indices_of_set (&bags->shape);
}

gboolean
tps_lookup_bags_check (const TpsLookupBags *bags, gsize set, gdouble checksum, const gchar *system,
                       GError **error)
{
  if (checksum == bags->checksum[set])
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "%s: a wrong sum of batch %" G_GSIZE_FORMAT ": %.17g, not %.17g", system, set,
               checksum, bags->checksum[set]);
  return FALSE;
}
