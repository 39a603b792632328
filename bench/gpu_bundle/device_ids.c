/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/gpu_bundle/device_ids.h"

#define EXACT_BITS 53 /* precision of a double */

/* The numbers in memory of the device. */
typedef struct
{
  TpsStream *stream;
  gsize n;
  gdouble *x, *y; /* [n] each */
  gint64 *whole;  /* [n] */
} Numbers;

static const TpsDeviceOps *
ops_of (const Numbers *numbers)
{
  return numbers->stream->device->ops;
}

static gboolean
is_power_of_two (gsize n)
{
  return n > 0 && (n & (n - 1)) == 0;
}

gboolean
tps_device_ids_can_fill (const TpsDeviceIdRule *rule, gsize n)
{
  return is_power_of_two (rule->period) && is_power_of_two (rule->n_different)
         && g_bit_storage (rule->period) + g_bit_storage (rule->n_different) <= EXACT_BITS
         && g_bit_storage (n) <= EXACT_BITS;
}

/* Sets x[i] = i. Each step copies the numbers so far and adds their count. */
static void
count_up (const Numbers *numbers)
{
  gdouble *x = numbers->x;

  ops_of (numbers)->fill (numbers->stream, TPS_DTYPE_FLOAT64, x, 0, MIN (numbers->n, 1));
  for (gsize done = 1; done < numbers->n; done *= 2)
    {
      gsize n = MIN (done, numbers->n - done);

      ops_of (numbers)->fill (numbers->stream, TPS_DTYPE_FLOAT64, x + done, (gdouble) done, n);
      ops_of (numbers)->accumulate (numbers->stream, TPS_DTYPE_FLOAT64, x + done, x, n);
    }
}

/* Sets x %= modulus, a power of two: subtracts modulus * floor (x / modulus). Overwrites y. */
static void
reduce (const Numbers *numbers, gsize modulus)
{
  const TpsDeviceOps *ops = ops_of (numbers);
  TpsStream *stream = numbers->stream;

  ops->scale (stream, TPS_DTYPE_FLOAT64, numbers->y, numbers->x, 1 / (gdouble) modulus, numbers->n);
  ops->cast (stream, TPS_DTYPE_INT64, numbers->whole, TPS_DTYPE_FLOAT64, numbers->y, numbers->n);
  ops->cast (stream, TPS_DTYPE_FLOAT64, numbers->y, TPS_DTYPE_INT64, numbers->whole, numbers->n);
  ops->scale_accumulate (stream, TPS_DTYPE_FLOAT64, numbers->x, numbers->y, -(gdouble) modulus,
                         numbers->n);
}

/* Enqueues the steps of the rule. The roles of x and y are exchanged for the second remainder. */
static void
enqueue (Numbers *numbers, const TpsDeviceIdRule *rule)
{
  gdouble *product = numbers->y;

  count_up (numbers);
  reduce (numbers, rule->period);
  ops_of (numbers)->scale (numbers->stream, TPS_DTYPE_FLOAT64, product, numbers->x,
                           (gdouble) (rule->factor % rule->n_different), numbers->n);
  numbers->y = numbers->x;
  numbers->x = product;
  reduce (numbers, rule->n_different);
  ops_of (numbers)->cast (numbers->stream, TPS_DTYPE_INT64, numbers->whole, TPS_DTYPE_FLOAT64,
                          numbers->x, numbers->n);
}

gboolean
tps_device_ids_fill (TpsStream *stream, const TpsDeviceIdRule *rule, gsize n, gint64 *ids,
                     GError **error)
{
  const TpsDeviceOps *ops = stream->device->ops;
  g_autoptr (TpsBuffer) x = ops->alloc (stream->device, MAX (n, 1) * sizeof (gdouble), error);
  g_autoptr (TpsBuffer)
      y = x != NULL ? ops->alloc (stream->device, MAX (n, 1) * sizeof (gdouble), error) : NULL;
  Numbers numbers = { stream, n, NULL, NULL, ids };

  if (y == NULL)
    return FALSE;
  numbers.x = (gdouble *) (gpointer) tps_buffer_get_data (x);
  numbers.y = (gdouble *) (gpointer) tps_buffer_get_data (y);
  enqueue (&numbers, rule);
  return ops->stream_sync (stream, error);
}
