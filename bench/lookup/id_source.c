/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/id_source.h"

#include <string.h>

#include "bench/zipf/zipf.h"
#include "runtime/embedding/sharding.h"

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
