/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Creating a stream takes longer than most copies, so idle streams are kept for later copies.
 * Allocating page-locked memory takes longer still, so it comes from a pool. */

#include "runtime/device/device_memory.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define MAX_KEPT_BYTES ((gsize) 256 << 20) /* of idle host memory */

/* The cached streams and memory of a device. They live as long as the process. */
typedef struct
{
  TpsDevice *device;
  TpsBufferPool *host;
  GSList *streams; /* idle streams, of TpsStream; under the lock */
} Kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the streams */
static GSList *all_kept;                                 /* of Kept */

static TpsBuffer *
alloc_host (gpointer user_data, gsize n_bytes, GError **error)
{
  TpsDevice *device = user_data;

  return device->ops->alloc_host (device, n_bytes, error);
}

TpsBufferPool *
tps_pinned_pool_new (TpsDevice *device, TpsBudget *budget, TpsBudget *kept, gsize keep_bytes)
{
  TpsBufferSource source = { .alloc = alloc_host,
                             .user_data = device,
                             .min_bytes = TPS_PINNED_MIN_BYTES };

  if (device == NULL || device->is_host)
    return tps_buffer_pool_new (budget, kept, keep_bytes);
  return tps_buffer_pool_new_from (budget, kept, keep_bytes, &source);
}

/* Frees idle memory. Returns TRUE if this call or another thread has freed some since count_frees()
 * returned `n_frees`. */
static gboolean
free_idle (TpsIdleMemory *idle, guint n_frees)
{
  TPS_LOCK_SCOPE (&idle->lock);
  if (idle->free_all (idle->user_data))
    idle->n_frees++;
  return idle->n_frees != n_frees;
}

void
tps_idle_memory_init (TpsIdleMemory *idle, TpsDevice *device,
                      gboolean (*free_all) (gpointer user_data), gpointer user_data)
{
  *idle = (TpsIdleMemory) { .device = device, .free_all = free_all, .user_data = user_data };
  tps_mutex_init (&idle->lock);
}

void
tps_idle_memory_clear (TpsIdleMemory *idle)
{
  tps_mutex_clear (&idle->lock);
}

static guint
count_frees (TpsIdleMemory *idle)
{
  TPS_LOCK_SCOPE (&idle->lock);
  return idle->n_frees;
}

TpsBuffer *
tps_idle_memory_alloc (TpsIdleMemory *idle, gsize n_bytes, GError **error)
{
  TpsDevice *device = idle->device;
  /* Read before the allocation, since a later free by another thread also justifies a retry. */
  guint n_frees = count_frees (idle);
  GError *refusal = NULL;
  TpsBuffer *buffer = device->ops->alloc (device, n_bytes, &refusal);

  if (buffer != NULL)
    return buffer;
  if (g_error_matches (refusal, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED)
      && free_idle (idle, n_frees))
    {
      g_clear_error (&refusal);
      return device->ops->alloc (device, n_bytes, error);
    }
  g_propagate_error (error, refusal);
  return NULL;
}

/* Returns the entry of `device`, and makes it at the first use. The lock is held. */
static Kept *
find_kept (TpsDevice *device)
{
  Kept *kept;

  for (GSList *link = all_kept; link != NULL; link = link->next)
    if (((Kept *) link->data)->device == device)
      return link->data;
  kept = g_new0 (Kept, 1);
  kept->device = device;
  kept->host = tps_pinned_pool_new (device, NULL, NULL, MAX_KEPT_BYTES);
  all_kept = g_slist_prepend (all_kept, kept);
  return kept;
}

static TpsBufferPool *
get_host_pool (TpsDevice *device)
{
  TPS_LOCK_SCOPE (&lock);
  return find_kept (device)->host;
}

static TpsStream *
take_stream (TpsDevice *device, GError **error)
{
  TpsStream *stream = NULL;
  Kept *kept;

  tps_mutex_lock (&lock);
  kept = find_kept (device);
  if (kept->streams != NULL)
    stream = kept->streams->data;
  kept->streams = g_slist_remove (kept->streams, stream);
  tps_mutex_unlock (&lock);
  return stream != NULL ? stream : device->ops->stream_new (device, error);
}

/* Waits for the queued copies, and keeps the stream. A stream that has failed cannot be used again,
 * so it is freed. */
static gboolean
put_back (TpsStream *stream, GError **error)
{
  const TpsDeviceOps *ops = stream->device->ops;
  Kept *kept;

  if (!ops->stream_sync (stream, error))
    {
      ops->stream_free (stream);
      return FALSE;
    }
  TPS_LOCK_SCOPE (&lock);
  kept = find_kept (stream->device);
  kept->streams = g_slist_prepend (kept->streams, stream);
  return TRUE;
}

TpsDevice *
tps_device_memory_of_buffer (const TpsBuffer *buffer)
{
  TpsDevice *device = tps_buffer_get_device (buffer);

  return device != NULL && !device->is_host ? device : NULL;
}

TpsDevice *
tps_device_memory_of_tensor (const TpsTensor *tensor)
{
  return tensor->buffer != NULL ? tps_device_memory_of_buffer (tensor->buffer) : NULL;
}

gboolean
tps_device_memory_copy (TpsDevice *device, gpointer to, gconstpointer from, gsize n_bytes,
                        GError **error)
{
  TpsStream *stream = take_stream (device, error);

  if (stream == NULL)
    return FALSE;
  device->ops->copy (stream, to, from, n_bytes);
  return put_back (stream, error);
}

gboolean
tps_device_memory_clear (TpsDevice *device, gpointer memory, gsize n_bytes, GError **error)
{
  TpsStream *stream = take_stream (device, error);

  if (stream == NULL)
    return FALSE;
  device->ops->zero (stream, memory, n_bytes);
  return put_back (stream, error);
}

gboolean
tps_device_memory_download (TpsTensor *copy, const TpsTensor *tensor, GError **error)
{
  TpsDevice *device = tps_device_memory_of_tensor (tensor);
  gsize n_bytes = tps_shape_n_bytes (&tensor->shape);
  g_autoptr (TpsBuffer) buffer = tps_buffer_pool_get (get_host_pool (device), n_bytes, NULL);

  if (buffer == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "no memory for a copy of %" G_GSIZE_FORMAT " bytes", n_bytes);
  if (!tps_device_memory_copy (device, tps_buffer_get_data (buffer), tps_tensor_data (tensor),
                               n_bytes, error))
    return FALSE;
  tps_tensor_init_take (copy, &tensor->shape, g_steal_pointer (&buffer), 0);
  return TRUE;
}
