/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/group/collectives.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

void
tps_collectives_init (TpsCollectives *self, TpsCommunicator *communicator)
{
  *self = (TpsCollectives) { .communicator = communicator,
                             .staging = { .communicator = communicator } };
}

void
tps_collectives_drop (TpsCollectives *self)
{
  tps_staging_drop (&self->staging);
}

void
tps_collectives_clear (TpsCollectives *self)
{
  tps_staging_clear (&self->staging);
  g_clear_pointer (&self->sum, tps_buffer_unref);
}

static cudaStream_t
handle_of (TpsCollectives *self)
{
  return ((TpsCudaStream *) self->communicator->stream)->handle;
}

/* Makes the device the current one, as NCCL requires. Fails if the stream is in the error state. */
static gboolean
enter (TpsCollectives *self, GError **error)
{
  TpsCudaStream *stream = (TpsCudaStream *) self->communicator->stream;

  if (tps_cuda_stream_enter (stream))
    return TRUE;
  g_propagate_error (error, g_error_copy (stream->error));
  return FALSE;
}

/* -- sums of floats -- */

static gboolean
reduce_in_place (TpsCollectives *self, gpointer data, gsize n_elems, GError **error)
{
  TpsCommunicator *c = self->communicator;

  return enter (self, error)
         && tps_communicator_settle (c,
                                     c->nccl->all_reduce (data, data, n_elems, ncclFloat32, ncclSum,
                                                          c->comm, handle_of (self)),
                                     "all-reduce", error);
}

/* Sums data in device memory. Uses the event of a slot, but not its buffer. */
static gboolean
reduce_on_device (TpsCollectives *self, gfloat *data, gsize n_elems, GError **error)
{
  TpsStagingSlot *slot = tps_staging_take (&self->staging, error);

  if (slot == NULL || !reduce_in_place (self, data, n_elems, error))
    return FALSE;
  tps_cuda_event_record (slot->event, self->communicator->stream);
  return TRUE;
}

/* Sums data in host memory, segment by segment. */
static gboolean
reduce_staged (TpsCollectives *self, TpsCudaPlace place, gfloat *data, gsize n_elems,
               GError **error)
{
  const gsize segment = TPS_STAGING_BYTES / sizeof *data;

  for (gsize start = 0; start < n_elems; start += segment)
    {
      gsize n = MIN (segment, n_elems - start);
      TpsStagingSlot *slot = tps_staging_take (&self->staging, error);

      if (slot == NULL)
        return FALSE;
      tps_staging_bring_in (&self->staging, slot, 0, data + start, place, n * sizeof *data);
      if (!reduce_in_place (self, tps_buffer_get_data (slot->room), n, error))
        return FALSE;
      tps_staging_bring_out (&self->staging, slot, 0, data + start, place, n * sizeof *data);
    }
  return TRUE;
}

gboolean
tps_collectives_all_reduce_f32 (TpsCollectives *self, TpsEvent *ready, gfloat *data, gsize n_elems,
                                GError **error)
{
  TpsCudaPlace place = tps_cuda_place_of (data);

  if (n_elems == 0)
    return TRUE;
  /* The host reads pageable memory, so it must wait for `ready`. All other memory is read by the
   * device. */
  if (ready != NULL && place == TPS_CUDA_PLACE_PAGEABLE
      && !tps_communicator_wait (self->communicator, ready, "waiting for the data", error))
    return FALSE;
  if (ready != NULL && place != TPS_CUDA_PLACE_PAGEABLE)
    tps_cuda_stream_wait_event (self->communicator->stream, ready);
  if (place == TPS_CUDA_PLACE_DEVICE)
    return reduce_on_device (self, data, n_elems, error)
           && tps_staging_drain (&self->staging, error);
  return reduce_staged (self, place, data, n_elems, error)
         && tps_staging_drain (&self->staging, error);
}

/* -- exchange of one number per rank -- */

/* Gathers the number `mine` of each rank in `all` [size]. */
static gboolean
exchange_numbers (TpsCollectives *self, guint64 mine, guint64 *all, GError **error)
{
  TpsCommunicator *c = self->communicator;
  TpsStagingSlot *slot = tps_staging_take (&self->staging, error);
  gsize own = c->rank * sizeof mine;
  guint8 *room;

  if (slot == NULL)
    return FALSE;
  room = tps_buffer_get_data (slot->room);
  tps_staging_bring_in (&self->staging, slot, own, &mine, TPS_CUDA_PLACE_PAGEABLE, sizeof mine);
  if (!enter (self, error)
      || !tps_communicator_settle (
          c, c->nccl->all_gather (room + own, room, 1, ncclUint64, c->comm, handle_of (self)),
          "all-gather of sizes", error))
    return FALSE;
  tps_staging_bring_out (&self->staging, slot, 0, all, TPS_CUDA_PLACE_PAGEABLE,
                         c->size * sizeof mine);
  return tps_staging_drain (&self->staging, error);
}

/* -- averages of half floats -- */

typedef struct
{
  TpsDType dtype;
  gsize elem_size;
  gdouble *weights; /* indexed by rank */
  gdouble divisor;
} Averaging;

/* Gathers the weights of all ranks in `weights` [size], which must contain the weight of this rank.
 * Sets `sum` to their sum. */
static gboolean
exchange_weights (TpsCollectives *self, gdouble *weights, gdouble *sum, GError **error)
{
  guint size = self->communicator->size;
  g_autofree guint64 *bits = g_new (guint64, size);
  guint64 mine;

  memcpy (&mine, &weights[self->communicator->rank], sizeof mine);
  if (!exchange_numbers (self, mine, bits, error))
    return FALSE;
  memcpy (weights, bits, size * sizeof *bits);
  *sum = 0;
  for (guint p = 0; p < size; p++)
    {
      if (!isfinite (weights[p]) || weights[p] < 0)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN, "rank %u sent an invalid weight",
                       p);
          return FALSE;
        }
      *sum += weights[p];
    }
  return TRUE;
}

/* Queues the weighted sum of the parts of all ranks, and its division into `out`. `parts` contains
 * the parts one after another. Parts of weight 0 are skipped. */
static void
queue_average (TpsCollectives *self, const Averaging *averaging, guint8 *parts, gpointer out,
               gsize n_elems)
{
  TpsStream *stream = self->communicator->stream;
  gpointer sum = tps_buffer_get_data (self->sum);
  gboolean has_sum = FALSE;

  for (guint p = 0; p < self->communicator->size; p++)
    {
      gconstpointer part = parts + p * n_elems * averaging->elem_size;

      if (averaging->weights[p] == 0)
        continue;
      if (has_sum)
        tps_cuda_ops.scale_accumulate (stream, averaging->dtype, sum, part, averaging->weights[p],
                                       n_elems);
      else
        tps_cuda_ops.scale (stream, averaging->dtype, sum, part, averaging->weights[p], n_elems);
      has_sum = TRUE;
    }
  tps_cuda_ops.divide (stream, averaging->dtype, out, sum, averaging->divisor, n_elems);
}

/* Averages one segment in place. A rank of weight 0 contributes zeros instead of its data. */
static gboolean
average_segment (TpsCollectives *self, const Averaging *averaging, TpsCudaPlace place, guint8 *data,
                 gsize n_elems, GError **error)
{
  TpsCommunicator *c = self->communicator;
  TpsStagingSlot *slot = tps_staging_take (&self->staging, error);
  gsize n_bytes = n_elems * averaging->elem_size, own = c->rank * n_bytes;
  guint8 *room;

  if (slot == NULL)
    return FALSE;
  room = tps_buffer_get_data (slot->room);
  if (averaging->weights[c->rank] != 0)
    tps_staging_bring_in (&self->staging, slot, own, data, place, n_bytes);
  else
    tps_cuda_ops.zero (c->stream, room + own, n_bytes);
  if (!enter (self, error)
      || !tps_communicator_settle (
          c, c->nccl->all_gather (room + own, room, n_bytes, ncclUint8, c->comm, handle_of (self)),
          "all-gather of half floats", error))
    return FALSE;
  queue_average (self, averaging, room, room + own, n_elems);
  tps_staging_bring_out (&self->staging, slot, own, data, place, n_bytes);
  return TRUE;
}

static gboolean
average_segments (TpsCollectives *self, const Averaging *averaging, TpsAverage *average,
                  GError **error)
{
  gsize segment = TPS_STAGING_BYTES / (self->communicator->size * averaging->elem_size);
  TpsCudaPlace place = tps_cuda_place_of (average->data);
  TpsDevice *device = &self->communicator->device->parent;

  if (self->sum == NULL)
    self->sum = tps_cuda_alloc (device, segment * sizeof (gfloat), error);
  if (self->sum == NULL)
    return FALSE;
  for (gsize start = 0; start < average->n_elems; start += segment)
    if (!average_segment (self, averaging, place,
                          (guint8 *) average->data + start * averaging->elem_size,
                          MIN (segment, average->n_elems - start), error))
      return FALSE;
  return tps_staging_drain (&self->staging, error);
}

gboolean
tps_collectives_average (TpsCollectives *self, TpsAverage *average, GError **error)
{
  guint size = self->communicator->size;
  g_autofree gdouble *weights = g_new0 (gdouble, size);
  Averaging averaging = { .dtype = average->dtype,
                          .elem_size = tps_dtype_size (average->dtype),
                          .weights = weights };
  gdouble sum;

  weights[self->communicator->rank] = average->weight;
  if (!exchange_weights (self, weights, &sum, error))
    return FALSE;
  averaging.divisor = average->delivers_sum ? 1 : sum;
  if (sum > 0 && !average_segments (self, &averaging, average, error))
    return FALSE;
  average->weight = sum;
  return TRUE;
}

/* -- gathering -- */

/* Gathers the numbers of bytes of all ranks in `counts` [size]. Sets `n_all` to their sum. */
static gboolean
exchange_counts (TpsCollectives *self, gsize n_bytes, gsize *counts, gsize *n_all, GError **error)
{
  guint size = self->communicator->size;
  g_autofree guint64 *all = g_new (guint64, size);

  if (!exchange_numbers (self, n_bytes, all, error))
    return FALSE;
  *n_all = 0;
  for (guint p = 0; p < size; p++)
    {
      counts[p] = all[p];
      if (all[p] > G_MAXSIZE / 2 - *n_all)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                       "rank %u announces too many bytes", p);
          return FALSE;
        }
      *n_all += all[p];
    }
  return TRUE;
}

/* Broadcasts the bytes of rank `root` in segments. Only this rank reads `data`. */
static gboolean
broadcast (TpsCollectives *self, guint root, gconstpointer data, gsize n_bytes, guint8 *to,
           GError **error)
{
  TpsCommunicator *c = self->communicator;
  TpsCudaPlace place = root == c->rank ? tps_cuda_place_of (data) : TPS_CUDA_PLACE_PAGEABLE;

  for (gsize start = 0; start < n_bytes; start += TPS_STAGING_BYTES)
    {
      gsize n = MIN (TPS_STAGING_BYTES, n_bytes - start);
      TpsStagingSlot *slot = tps_staging_take (&self->staging, error);
      gpointer room;

      if (slot == NULL)
        return FALSE;
      room = tps_buffer_get_data (slot->room);
      if (root == c->rank)
        tps_staging_bring_in (&self->staging, slot, 0, (const guint8 *) data + start, place, n);
      if (!enter (self, error)
          || !tps_communicator_settle (
              c,
              c->nccl->broadcast (room, room, n, ncclUint8, (gint) root, c->comm, handle_of (self)),
              "broadcast", error))
        return FALSE;
      tps_staging_bring_out (&self->staging, slot, 0, to + start, TPS_CUDA_PLACE_PAGEABLE, n);
    }
  return TRUE;
}

static gboolean
gather (TpsCollectives *self, gconstpointer data, const gsize *counts, guint8 *to, GError **error)
{
  for (guint p = 0; p < self->communicator->size; to += counts[p], p++)
    if (!broadcast (self, p, data, counts[p], to, error))
      return FALSE;
  return tps_staging_drain (&self->staging, error);
}

gboolean
tps_collectives_all_gather_bytes (TpsCollectives *self, gconstpointer data, gsize n_bytes,
                                  gsize *counts, TpsBuffer **gathered, GError **error)
{
  g_autoptr (TpsBuffer) all = NULL;
  gsize n_all;

  if (!exchange_counts (self, n_bytes, counts, &n_all, error))
    return FALSE;
  all = tps_buffer_pool_try_get (tps_buffer_pool_get_default (), n_all);
  if (all == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for %" G_GSIZE_FORMAT " bytes", n_all);
      return FALSE;
    }
  if (!gather (self, data, counts, tps_buffer_get_data (all), error))
    return FALSE;
  *gathered = g_steal_pointer (&all);
  return TRUE;
}
