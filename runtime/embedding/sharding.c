/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/sharding.h"

#include "runtime/base/error.h"

#define FACTOR_1 G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)
#define FACTOR_2 G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9)
/* The inverses of the factors modulo 2^64, and therefore modulo every smaller power of two. */
#define INVERSE_1 G_GUINT64_CONSTANT (0xF1DE83E19937733D)
#define INVERSE_2 G_GUINT64_CONSTANT (0x96DE1B173F119089)

/* The permutation of [0, 2^n_bits) that tps_shard_permute() iterates. */
typedef struct
{
  guint n_bits;
  guint shift;
  guint64 mask;
} Mixer;

static Mixer
mixer_of (gint64 rows)
{
  guint n_bits = rows > 1 ? 64 - (guint) __builtin_clzll ((guint64) rows - 1) : 1;

  return (Mixer) {
    .n_bits = n_bits,
    .shift = MAX (n_bits / 2, 1),
    .mask = (G_GUINT64_CONSTANT (1) << n_bits) - 1,
  };
}

static guint64
mix (const Mixer *mixer, guint64 x)
{
  x ^= x >> mixer->shift;
  x = (x * FACTOR_1) & mixer->mask;
  x ^= x >> mixer->shift;
  x = (x * FACTOR_2) & mixer->mask;
  return x ^ (x >> mixer->shift);
}

/* Inverts x ^= x >> shift. Over GF(2), with S for the shift, the inverse is 1 / (1 + S) = (1 + S)
 * (1 + S^2) (1 + S^4) ... */
static guint64
unshift (const Mixer *mixer, guint64 x)
{
  for (guint shift = mixer->shift; shift < mixer->n_bits; shift *= 2)
    x ^= x >> shift;
  return x;
}

static guint64
unmix (const Mixer *mixer, guint64 x)
{
  x = (unshift (mixer, x) * INVERSE_2) & mixer->mask;
  x = (unshift (mixer, x) * INVERSE_1) & mixer->mask;
  return unshift (mixer, x);
}

gint64
tps_shard_permute (gint64 row, gint64 rows)
{
  Mixer mixer = mixer_of (rows);
  guint64 x = (guint64) row;

  do
    x = mix (&mixer, x);
  while (x >= (guint64) rows);
  return (gint64) x;
}

gint64
tps_shard_unpermute (gint64 number, gint64 rows)
{
  Mixer mixer = mixer_of (rows);
  guint64 x = (guint64) number;

  do
    x = unmix (&mixer, x);
  while (x >= (guint64) rows);
  return (gint64) x;
}

/* -- shards -- */

static gboolean
check_rows (gint64 rows, GError **error)
{
  if (rows >= 1)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "rows: %" G_GINT64_FORMAT ", expected at least 1", rows);
}

void
tps_shard_init_whole (TpsShard *shard, gint64 rows)
{
  *shard = (TpsShard) { .kind = TPS_SHARD_WHOLE, .rows = rows, .n_rows = rows };
}

gboolean
tps_shard_init_range (TpsShard *shard, gint64 rows, gint64 first_row, gint64 n_rows, GError **error)
{
  if (!check_rows (rows, error))
    return FALSE;
  if (first_row < 0 || first_row > rows)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "first_row: %" G_GINT64_FORMAT " is not in [0, %" G_GINT64_FORMAT "]",
                     first_row, rows);
  if (n_rows == -1)
    n_rows = rows - first_row;
  if (n_rows < 0 || n_rows > rows - first_row)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "shard_rows: %" G_GINT64_FORMAT " from row %" G_GINT64_FORMAT
                     " on are not in [0, %" G_GINT64_FORMAT ")",
                     n_rows, first_row, rows);
  *shard = (TpsShard) {
    .kind = TPS_SHARD_RANGE,
    .rows = rows,
    .first_row = first_row,
    .n_rows = n_rows,
  };
  return TRUE;
}

gboolean
tps_shard_init_hash (TpsShard *shard, gint64 rows, gint32 index, gint32 count, GError **error)
{
  if (!check_rows (rows, error))
    return FALSE;
  if (count < 1)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "shard_count: %d, expected at least 1",
                     count);
  if (index < 0 || index >= count)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "shard_index: %d is not in [0, %d)", index,
                     count);
  *shard = (TpsShard) {
    .kind = TPS_SHARD_HASH,
    .rows = rows,
    .n_rows = rows / count + (index < rows % count),
    .index = index,
    .count = count,
  };
  return TRUE;
}

gboolean
tps_shard_equal (const TpsShard *a, const TpsShard *b)
{
  return a->kind == b->kind && a->rows == b->rows && a->first_row == b->first_row
         && a->n_rows == b->n_rows && a->index == b->index && a->count == b->count;
}

gint64
tps_shard_get_slot (const TpsShard *shard, gint64 row)
{
  gint64 number;

  switch (shard->kind)
    {
    case TPS_SHARD_WHOLE:
      return row;
    case TPS_SHARD_RANGE:
      return row >= shard->first_row && row - shard->first_row < shard->n_rows
                 ? row - shard->first_row
                 : -1;
    case TPS_SHARD_HASH:
      number = tps_shard_permute (row, shard->rows);
      return number % shard->count == shard->index ? number / shard->count : -1;
    }
  g_assert_not_reached ();
}

gint64
tps_shard_get_row (const TpsShard *shard, gint64 slot)
{
  switch (shard->kind)
    {
    case TPS_SHARD_WHOLE:
      return slot;
    case TPS_SHARD_RANGE:
      return shard->first_row + slot;
    case TPS_SHARD_HASH:
      return tps_shard_unpermute (slot * shard->count + shard->index, shard->rows);
    }
  g_assert_not_reached ();
}

gint64
tps_shard_range_begin (gint64 rows, gint32 index, gint32 count)
{
  return (gint64) ((unsigned __int128) rows * (guint64) index / (guint64) count);
}

void
tps_shard_get_numbers (const TpsShard *shard, gint64 *first, gint64 *stride)
{
  *first = shard->kind == TPS_SHARD_HASH ? shard->index : shard->first_row;
  *stride = shard->kind == TPS_SHARD_HASH ? shard->count : 1;
}
