/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A lane is a stream with memory for one sum. Idle lanes are kept for later sums, because creating
 * a stream and allocating memory of a device take longer than a small sum. If the device has no
 * memory left, the memory of the idle lanes of the same server is freed. */

#include "runtime/server/averaging/device_sum.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"

struct TpsDeviceSums
{
  TpsDevice *device;
  TpsIdleMemory idle_memory; /* of the idle lanes */
  TpsMutex lock;
  TpsDeviceSum *idle; /* a list, guarded by `lock` */
};

struct TpsDeviceSum
{
  TpsDeviceSums *sums;
  TpsDeviceSum *next; /* in the list of idle lanes */
  TpsStream *stream;
  TpsBuffer *staged; /* a gradient, then the average */
  TpsBuffer *sum;

  TpsDType dtype;
  gsize n_elems;
  gboolean has_sum;
};

static const TpsDeviceOps *
ops_of (TpsDeviceSum *sum)
{
  return sum->sums->device->ops;
}

/* -- lanes -- */

static void
free_lane (TpsDeviceSum *lane)
{
  if (lane->stream != NULL)
    ops_of (lane)->stream_free (lane->stream);
  g_clear_pointer (&lane->staged, tps_buffer_unref);
  g_clear_pointer (&lane->sum, tps_buffer_unref);
  g_free (lane);
}

static gboolean
free_idle_memory (gpointer user_data)
{
  TpsDeviceSums *sums = user_data;
  gboolean was_there = FALSE;

  TPS_LOCK_SCOPE (&sums->lock);
  for (TpsDeviceSum *lane = sums->idle; lane != NULL; lane = lane->next)
    {
      was_there |= lane->staged != NULL || lane->sum != NULL;
      g_clear_pointer (&lane->staged, tps_buffer_unref);
      g_clear_pointer (&lane->sum, tps_buffer_unref);
    }
  return was_there;
}

static gboolean
provide (TpsBuffer **buffer, TpsDeviceSums *sums, gsize n_bytes, GError **error)
{
  if (*buffer != NULL && tps_buffer_get_size (*buffer) >= n_bytes)
    return TRUE;
  g_clear_pointer (buffer, tps_buffer_unref);
  *buffer = tps_idle_memory_alloc (&sums->idle_memory, n_bytes, error);
  return *buffer != NULL;
}

static gboolean
prepare_lane (TpsDeviceSum *lane, TpsDType dtype, gsize n_elems, GError **error)
{
  TpsDevice *device = lane->sums->device;

  lane->dtype = dtype;
  lane->n_elems = n_elems;
  lane->has_sum = FALSE;
  if (lane->stream == NULL)
    lane->stream = device->ops->stream_new (device, error);
  return lane->stream != NULL
         && provide (&lane->staged, lane->sums, n_elems * tps_dtype_size (dtype), error)
         && provide (&lane->sum, lane->sums,
                     n_elems * (dtype == TPS_DTYPE_FLOAT64 ? sizeof (gdouble) : sizeof (gfloat)),
                     error);
}

static TpsDeviceSum *
take_lane (TpsDeviceSums *sums)
{
  TpsDeviceSum *lane;

  tps_mutex_lock (&sums->lock);
  lane = sums->idle;
  if (lane != NULL)
    sums->idle = lane->next;
  tps_mutex_unlock (&sums->lock);
  if (lane == NULL)
    {
      lane = g_new0 (TpsDeviceSum, 1);
      lane->sums = sums;
    }
  return lane;
}

TpsDeviceSums *
tps_device_sums_new (TpsDevice *device)
{
  TpsDeviceSums *sums = g_new0 (TpsDeviceSums, 1);

  sums->device = device;
  tps_mutex_init (&sums->lock);
  tps_idle_memory_init (&sums->idle_memory, device, free_idle_memory, sums);
  return sums;
}

TpsDevice *
tps_device_sums_get_device (const TpsDeviceSums *sums)
{
  return sums->device;
}

void
tps_device_sums_free (TpsDeviceSums *sums)
{
  for (TpsDeviceSum *lane = sums->idle, *next; lane != NULL; lane = next)
    {
      next = lane->next;
      free_lane (lane);
    }
  tps_idle_memory_clear (&sums->idle_memory);
  tps_mutex_clear (&sums->lock);
  g_free (sums);
}

/* -- a sum -- */

TpsDeviceSum *
tps_device_sum_new (TpsDeviceSums *sums, TpsDType dtype, gsize n_elems, GError **error)
{
  TpsDeviceSum *lane = take_lane (sums);

  if (prepare_lane (lane, dtype, n_elems, error))
    return lane;
  free_lane (lane);
  return NULL;
}

/* A lane with a failed stream is not kept. */
void
tps_device_sum_free (TpsDeviceSum *sum)
{
  TpsDeviceSums *sums = sum->sums;

  if (!ops_of (sum)->stream_sync (sum->stream, NULL))
    {
      free_lane (sum);
      return;
    }
  TPS_LOCK_SCOPE (&sums->lock);
  sum->next = sums->idle;
  sums->idle = sum;
}

void
tps_device_sum_add_there (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight)
{
  const TpsDeviceOps *ops = ops_of (sum);
  gpointer total = tps_buffer_get_data (sum->sum);

  if (sum->has_sum)
    ops->scale_accumulate (sum->stream, sum->dtype, total, gradient, weight, sum->n_elems);
  else
    ops->scale (sum->stream, sum->dtype, total, gradient, weight, sum->n_elems);
  sum->has_sum = TRUE;
}

/* The stream works in order, so a gradient is not overwritten before it has been added. */
void
tps_device_sum_add (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight)
{
  gpointer staged = tps_buffer_get_data (sum->staged);

  ops_of (sum)->copy (sum->stream, staged, gradient, sum->n_elems * tps_dtype_size (sum->dtype));
  tps_device_sum_add_there (sum, staged, weight);
}

gboolean
tps_device_sum_sync (TpsDeviceSum *sum, GError **error)
{
  return ops_of (sum)->stream_sync (sum->stream, error);
}

gboolean
tps_device_sum_average (TpsDeviceSum *sum, gpointer average, gdouble divisor, GError **error)
{
  const TpsDeviceOps *ops = ops_of (sum);
  gpointer staged = tps_buffer_get_data (sum->staged);

  ops->divide (sum->stream, sum->dtype, staged, tps_buffer_get_data (sum->sum), divisor,
               sum->n_elems);
  ops->copy (sum->stream, average, staged, sum->n_elems * tps_dtype_size (sum->dtype));
  return tps_device_sum_sync (sum, error);
}

TpsBuffer *
tps_device_sum_average_there (TpsDeviceSum *sum, gdouble divisor, GError **error)
{
  TpsDevice *device = sum->sums->device;
  gsize n_bytes = sum->n_elems * tps_dtype_size (sum->dtype);
  g_autoptr (TpsBuffer) average = tps_idle_memory_alloc (&sum->sums->idle_memory, n_bytes, error);

  if (average == NULL)
    return NULL;
  device->ops->divide (sum->stream, sum->dtype, tps_buffer_get_data (average),
                       tps_buffer_get_data (sum->sum), divisor, sum->n_elems);
  return tps_device_sum_sync (sum, error) ? g_steal_pointer (&average) : NULL;
}
