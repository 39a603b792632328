/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Blocks are ranked by their sums of squares. This choice minimises the norm of the remainder. The
 * smaller this norm is, the faster error feedback converges.
 *
 * The bits of non-negative floats have the same order as the floats. Therefore a radix selection
 * finds the n-th largest sum: it counts the keys by their digits, from the highest digit to the
 * lowest. The selection reads one integer of each block three times, moves no data, and counts
 * ties. */

#include "runtime/trainer/compress/block_choice.h"

#include <string.h>


#define N_DIGITS 2048
#define NAN_KEY G_MAXUINT32 /* greater than the key of infinity */

G_STATIC_ASSERT (TPS_TOP_K_BLOCK == 16);

static inline guint32
key_of_square (gfloat square)
{
  guint32 bits;

  memcpy (&bits, &square, sizeof bits);
  return square == square ? bits : NAN_KEY;
}

/* Computes the key of each block. The squares are added in a tree, so the additions of one level do
 * not depend on each other. */
static void
make_keys (const gfloat *values, gsize n_blocks, guint32 *keys)
{
  for (gsize b = 0; b < n_blocks; b++)
    {
      const gfloat *x = values + b * TPS_TOP_K_BLOCK;
      gfloat s[8];

      for (guint i = 0; i < 8; i++)
        s[i] = x[i] * x[i] + x[i + 8] * x[i + 8];
      for (guint i = 0; i < 4; i++)
        s[i] += s[i + 4];
      for (guint i = 0; i < 2; i++)
        s[i] += s[i + 2];
      keys[b] = key_of_square (s[0] + s[1]);
    }
}

/* Returns the n-th largest key, n >= 1. `n_of_it` receives the number of keys among the n largest
 * that equal this key. */
static guint32
find_threshold (const guint32 *keys, gsize n_keys, gsize n, gsize *n_of_it)
{
  static const guint shifts[] = { 21, 10, 0 }; /* of digits of 11 bits; the last two overlap */
  guint32 prefix = 0, mask = 0;

  for (guint level = 0; level < G_N_ELEMENTS (shifts); level++)
    {
      gsize counts[N_DIGITS] = { 0 };
      guint32 digit = N_DIGITS - 1;

      for (gsize i = 0; i < n_keys; i++)
        if ((keys[i] & mask) == prefix)
          counts[keys[i] >> shifts[level] & (N_DIGITS - 1)]++;
      for (; counts[digit] < n; digit--)
        n -= counts[digit];
      prefix |= digit << shifts[level];
      mask |= (guint32) (N_DIGITS - 1) << shifts[level];
    }
  *n_of_it = n;
  return prefix;
}

gsize
tps_block_choice (const gfloat *values, gsize n_elems, gsize n_wanted, guint32 *keys,
                  gint64 *chosen)
{
  gsize n_whole = n_elems / TPS_TOP_K_BLOCK;
  gsize n_rest = n_elems % TPS_TOP_K_BLOCK;
  gsize n_blocks = n_whole + (n_rest > 0);
  gfloat last[TPS_TOP_K_BLOCK] = { 0 };
  gsize n_chosen = 0, n_of_threshold;
  guint32 threshold;

  if (n_wanted == 0)
    return 0;
  make_keys (values, n_whole, keys);
  if (n_rest > 0)
    {
      memcpy (last, values + n_whole * TPS_TOP_K_BLOCK, n_rest * sizeof last[0]);
      make_keys (last, 1, keys + n_whole);
    }
  threshold = find_threshold (keys, n_blocks, n_wanted, &n_of_threshold);
  for (gsize b = 0; b < n_blocks; b++)
    {
      if (keys[b] < threshold || keys[b] == 0)
        continue;
      if (keys[b] == threshold && n_of_threshold == 0)
        continue;
      n_of_threshold -= keys[b] == threshold;
      chosen[n_chosen++] = (gint64) b;
    }
  return n_chosen;
}
