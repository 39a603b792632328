/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The region under exp (-x^2 / 2), x >= 0, is cut into 128 layers of equal area (AREA). Layer i > 0
 * has the width edges[i]. Its part beyond edges[i + 1] lies partly outside the region. Layer 0
 * includes the tail beyond R. A number within edges[i + 1] is accepted at once. Any other number is
 * compared with the density. This comparison uses the logarithm of rng.c, which is the same on
 * every platform. */

#include "runtime/base/ziggurat.h"

#include <math.h>
#include <pthread.h>

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
  for (;; word = tps_rng_next_u32 (rng))
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
      guint32 word = tps_rng_next_u32 (rng);
      guint layer = word % N_LAYERS;
      gint32 number = (gint32) (word >> 7) - (1 << 24);

      values[i] = ABS (number) < layers.inside[layer] ? (gfloat) (number * layers.scale[layer])
                                                      : draw_slowly (rng, word);
    }
}
