/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/activations.h"

#define ALIGNED_ELEMS (TPS_BUFFER_ALIGNMENT / sizeof (gfloat))

/* Adds the size of one array, with its padding, to `n_bytes`. Saturates on overflow, so the
 * allocation fails. */
static gsize
add_array (gsize n_bytes, gsize rows, gsize width)
{
  gsize n_elems, array_bytes;

  if (!g_size_checked_mul (&n_elems, rows, width)
      || !g_size_checked_add (&n_elems, n_elems, ALIGNED_ELEMS - 1)
      || !g_size_checked_mul (&array_bytes, n_elems / ALIGNED_ELEMS, TPS_BUFFER_ALIGNMENT)
      || !g_size_checked_add (&n_bytes, n_bytes, array_bytes))
    return G_MAXSIZE;
  return n_bytes;
}

static gboolean
reallocate (TpsActivations *activations, TpsStream *stream, gsize n_bytes, GError **error)
{
  const TpsDeviceOps *ops = stream->device->ops;

  /* The stream may still be using the old memory. */
  if (activations->buffer != NULL && !ops->stream_sync (stream, error))
    return FALSE;
  tps_activations_clear (activations);
  activations->buffer = ops->alloc (stream->device, n_bytes, error);
  return activations->buffer != NULL;
}

gboolean
tps_activations_reserve (TpsActivations *activations, TpsStream *stream, gsize rows,
                         const gsize *widths, guint n_arrays, gfloat **arrays, GError **error)
{
  gsize n_bytes = 0;

  if (rows <= activations->capacity)
    return TRUE;
  for (guint i = 0; i < n_arrays; i++)
    n_bytes = add_array (n_bytes, rows, widths[i]);
  if (!reallocate (activations, stream, n_bytes, error))
    return FALSE;
  activations->capacity = rows;
  n_bytes = 0;
  for (guint i = 0; i < n_arrays; i++)
    {
      arrays[i] = (gfloat *) (gpointer) (tps_buffer_get_data (activations->buffer) + n_bytes);
      n_bytes = add_array (n_bytes, rows, widths[i]);
    }
  return TRUE;
}

void
tps_activations_clear (TpsActivations *activations)
{
  g_clear_pointer (&activations->buffer, tps_buffer_unref);
  activations->capacity = 0;
}
