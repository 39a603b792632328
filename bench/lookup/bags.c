/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/bags.h"

#include <string.h>

#include "bench/zipf/zipf.h"
#include "runtime/base/error.h"
#include "runtime/embedding/sharding.h"

/* -- id source -- */

#define N_DRAWN (1 << 18) /* number of ids drawn in advance */

struct TpsLookupIdSource
{
  GRand *dice;
  gint32 n_rows;
  gint64 *drawn; /* [N_DRAWN]; NULL = ids are uniform */
  TpsZipf zipf;
  TpsRng rng;
};

static void
draw_zipf (TpsLookupIdSource *source, gint64 *ids, gsize n)
{
  for (gsize i = 0; i < n; i++)
    ids[i] = tps_shard_permute (tps_zipf_draw (&source->zipf, &source->rng), source->n_rows);
}

static void
draw_uniform (TpsLookupIdSource *source, gint64 *ids, gsize n)
{
  for (gsize i = 0; i < n; i++)
    ids[i] = g_rand_int_range (source->dice, 0, source->n_rows);
}

static void
draw_in_advance (TpsLookupIdSource *source, gdouble exponent, guint32 seed)
{
  tps_zipf_init (&source->zipf, source->n_rows, exponent);
  tps_rng_init (&source->rng, seed, 0);
  source->drawn = g_new (gint64, N_DRAWN);
  draw_zipf (source, source->drawn, N_DRAWN);
}

TpsLookupIdSource *
tps_lookup_id_source_new (const TpsLookupIdKind *kind, gsize n_rows, guint32 seed)
{
  TpsLookupIdSource *source = g_new0 (TpsLookupIdSource, 1);

  source->dice = g_rand_new_with_seed (seed);
  source->n_rows = (gint32) n_rows;
  if (kind->is_zipf)
    draw_in_advance (source, kind->exponent, seed);
  return source;
}

void
tps_lookup_id_source_free (TpsLookupIdSource *source)
{
  g_rand_free (source->dice);
  g_free (source->drawn);
  g_free (source);
}

static void
copy_drawn (TpsLookupIdSource *source, gint64 *ids, gsize n)
{
  gsize place = (gsize) g_rand_int_range (source->dice, 0, N_DRAWN);

  for (gsize n_some; n > 0; n -= n_some, ids += n_some)
    {
      n_some = MIN (n, N_DRAWN - place);
      memcpy (ids, source->drawn + place, n_some * sizeof ids[0]);
      place = 0;
    }
}

void
tps_lookup_id_source_draw (TpsLookupIdSource *source, gint64 *ids, gsize n)
{
  if (source->drawn != NULL)
    copy_drawn (source, ids, n);
  else
    draw_uniform (source, ids, n);
}

void
tps_lookup_id_source_draw_each (TpsLookupIdSource *source, gint64 *ids, gsize n)
{
  if (source->drawn != NULL)
    draw_zipf (source, ids, n);
  else
    draw_uniform (source, ids, n);
}

/* -- bags -- */

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
