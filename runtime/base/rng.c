/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ziggurat. The region under exp (-x^2 / 2), x >= 0, is cut into 128 layers of equal area
 * (AREA). Layer i > 0 has the width edges[i]. Its part beyond edges[i + 1] lies partly outside the
 * region. Layer 0 includes the tail beyond R. A number within edges[i + 1] is accepted at once.
 * Any other number is compared with the density. This comparison uses tps_rng_natural_log(), which
 * is the same on every platform. */

#include "runtime/base/rng.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* The constants of Philox4x32-10. */
#define N_ROUNDS 10
#define MULTIPLIER_0 G_GUINT64_CONSTANT (0xd2511f53)
#define MULTIPLIER_1 G_GUINT64_CONSTANT (0xcd9e8d57)
#define WEYL_0 0x9e3779b9u
#define WEYL_1 0xbb67ae85u

#define N_LAYERS 128
#define R 3.442619855899
#define AREA 9.91256303526217e-3
#define DENSITY_AT_R 0x1.5de9e33726f20p-9 /* exp (-R^2 / 2) */

static struct
{
  gdouble edges[N_LAYERS + 1];   /* widths of the layers, from the base up */
  gdouble density[N_LAYERS + 1]; /* the density at the edges */
  gdouble scale[N_LAYERS];       /* edges[i] / 2^24 */
  gint32 inside[N_LAYERS];       /* numbers of smaller magnitude are within edges[i + 1] */
} layers;

void
tps_rng_philox (const guint32 counter[4], const guint32 key[2], guint32 block[4])
{
  guint32 c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  guint32 k0 = key[0], k1 = key[1];

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      guint64 product_0 = MULTIPLIER_0 * c0;
      guint64 product_1 = MULTIPLIER_1 * c2;

      c0 = (guint32) (product_1 >> 32) ^ c1 ^ k0;
      c1 = (guint32) product_1;
      c2 = (guint32) (product_0 >> 32) ^ c3 ^ k1;
      c3 = (guint32) product_0;
      k0 += WEYL_0;
      k1 += WEYL_1;
    }
  block[0] = c0;
  block[1] = c1;
  block[2] = c2;
  block[3] = c3;
}

void
tps_rng_init (TpsRng *rng, gint64 seed, guint64 stream)
{
  memset (rng, 0, sizeof *rng);
  rng->key[0] = (guint32) (guint64) seed;
  rng->key[1] = (guint32) ((guint64) seed >> 32);
  rng->counter[2] = (guint32) stream;
  rng->counter[3] = (guint32) (stream >> 32);
}

/* Returns the next number, uniform over 32 bits. */
static guint32
next_u32 (TpsRng *rng)
{
  if (rng->n_left == 0)
    {
      tps_rng_philox (rng->counter, rng->key, rng->block);
      if (++rng->counter[0] == 0)
        rng->counter[1]++;
      rng->n_left = 4;
    }
  return rng->block[4 - rng->n_left--];
}

static guint64
next_u64 (TpsRng *rng)
{
  guint64 low = next_u32 (rng);

  return low | (guint64) next_u32 (rng) << 32;
}

/* Numbers from the largest multiple of the bound on are rejected, because they would make small
 * results more probable. `excess` is 2^64 modulo the bound. */
guint64
tps_rng_next_below (TpsRng *rng, guint64 bound)
{
  guint64 excess = (G_MAXUINT64 % bound + 1) % bound;
  guint64 number;

  do
    number = next_u64 (rng);
  while (number > G_MAXUINT64 - excess);
  return number % bound;
}

gdouble
tps_rng_next_double (TpsRng *rng)
{
  return (gdouble) (next_u64 (rng) >> 11) * 0x1p-53;
}

/* Returns ln x for a normal x > 0, by the series of the inverse hyperbolic tangent: x = m 2^e with
 * m in [sqrt (1/2), sqrt (2)), and ln m = 2 artanh ((m - 1) / (m + 1)). The ratio of successive
 * terms is at most 0.0295, so the error after 14 terms is below 1e-20. */
gdouble
tps_rng_natural_log (gdouble x)
{
  gint exponent;
  gdouble m = frexp (x, &exponent);
  gdouble s, square, sum = 0;

  if (m < 0x1.6a09e667f3bcdp-1) /* sqrt (1/2) */
    {
      m *= 2;
      exponent--;
    }
  s = (m - 1) / (m + 1);
  square = s * s;
  for (gint k = 27; k >= 1; k -= 2)
    sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0x1.62e42fefa39efp-1;
}

gdouble
tps_rng_next_normal (TpsRng *rng)
{
  gdouble x, y, square, factor;

  if (rng->has_normal)
    {
      rng->has_normal = FALSE;
      return rng->normal;
    }
  do
    {
      x = 2 * tps_rng_next_double (rng) - 1;
      y = 2 * tps_rng_next_double (rng) - 1;
      square = x * x + y * y;
    }
  while (square >= 1 || square == 0);
  factor = sqrt (-2 * tps_rng_natural_log (square) / square);
  rng->normal = y * factor;
  rng->has_normal = TRUE;
  return x * factor;
}

void
tps_rng_fill_uniform (TpsRng *rng, gfloat *values, gsize n, gdouble low, gdouble high)
{
  gdouble step = (high - low) * 0x1p-24;

  for (gsize i = 0; i < n; i++)
    values[i] = (gfloat) (low + step * (gdouble) (next_u32 (rng) >> 8));
}

void
tps_rng_fill_normal (TpsRng *rng, gfloat *values, gsize n, gdouble mean, gdouble stdev)
{
  for (gsize i = 0; i < n; i++)
    values[i] = (gfloat) (mean + stdev * tps_rng_next_normal (rng));
}

void
tps_rng_shuffle (TpsRng *rng, gint64 *values, gsize n)
{
  for (gsize i = n; i > 1; i--)
    {
      gsize j = (gsize) tps_rng_next_below (rng, i);
      gint64 value = values[i - 1];

      values[i - 1] = values[j];
      values[j] = value;
    }
}

static void
make_layers (void)
{
  layers.edges[0] = AREA / DENSITY_AT_R;
  layers.edges[1] = R;
  layers.density[0] = 0;
  layers.density[1] = DENSITY_AT_R;
  for (guint i = 1; i + 1 < N_LAYERS; i++)
    {
      layers.density[i + 1] = AREA / layers.edges[i] + layers.density[i];
      layers.edges[i + 1] = sqrt (-2 * tps_rng_natural_log (layers.density[i + 1]));
    }
  layers.edges[N_LAYERS] = 0;
  layers.density[N_LAYERS] = 1;
  for (guint i = 0; i < N_LAYERS; i++)
    {
      layers.scale[i] = layers.edges[i] * 0x1p-24;
      layers.inside[i] = (gint32) (layers.edges[i + 1] / layers.edges[i] * 0x1p24);
    }
}

/* Draws a number beyond R by Marsaglia's method. */
static gdouble
draw_tail (TpsRng *rng)
{
  gdouble x, y;

  do
    {
      x = -tps_rng_natural_log (1 - tps_rng_next_double (rng)) / R;
      y = -tps_rng_natural_log (1 - tps_rng_next_double (rng));
    }
  while (2 * y < x * x);
  return R + x;
}

/* Compares a number beyond edges[layer + 1] with the density, at a random height within the layer.
 * Returns TRUE if the number lies in the region. */
static gboolean
is_below_density (TpsRng *rng, guint layer, gdouble x)
{
  gdouble low = layers.density[layer];
  gdouble high = layers.density[layer + 1];
  gdouble y = low + tps_rng_next_double (rng) * (high - low);

  return y == 0 || tps_rng_natural_log (y) < -x * x / 2;
}

/* Draws a number if its first word, `word`, does not suffice for the decision. */
static gfloat
draw_slowly (TpsRng *rng, guint32 word)
{
  for (;; word = next_u32 (rng))
    {
      guint layer = word % N_LAYERS;
      gint32 number = (gint32) (word >> 7) - (1 << 24);
      gdouble x = number * layers.scale[layer];

      if (ABS (number) < layers.inside[layer])
        return (gfloat) x;
      if (layer == 0)
        return (gfloat) (number < 0 ? -draw_tail (rng) : draw_tail (rng));
      if (is_below_density (rng, layer, x))
        return (gfloat) x;
    }
}

void
tps_ziggurat_fill (TpsRng *rng, gfloat *values, gsize n)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  pthread_once (&once, make_layers);
  for (gsize i = 0; i < n; i++)
    {
      guint32 word = next_u32 (rng);
      guint layer = word % N_LAYERS;
      gint32 number = (gint32) (word >> 7) - (1 << 24);

      values[i] = ABS (number) < layers.inside[layer] ? (gfloat) (number * layers.scale[layer])
                                                      : draw_slowly (rng, word);
    }
}
