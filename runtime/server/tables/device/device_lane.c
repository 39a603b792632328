/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/device/device_lane.h"

#include "runtime/device/pinned_pool.h"

/* Memory above this is released at the end of the call, so that one large push does not hold it for
 * ever. */
#define MAX_KEPT_BYTES ((gsize) 256 << 20)
#define MIN_BYTES ((gsize) 64 << 10)

TpsDeviceLanes *
tps_device_lanes_new (TpsDevice *device, TpsBudget *answers, TpsBudget *kept)
{
  TpsDeviceLanes *lanes = g_new0 (TpsDeviceLanes, 1);

  lanes->device = device;
  lanes->answers = tps_pinned_pool_new (device, answers, kept, MAX_KEPT_BYTES);
  tps_mutex_init (&lanes->lock);
  return lanes;
}

static void
destroy_lane (TpsDeviceLane *lane)
{
  const TpsDeviceOps *ops = lane->lanes->device->ops;

  if (lane->stream != NULL)
    ops->stream_free (lane->stream);
  for (guint i = 0; i < lane->events->len; i++)
    ops->event_free (g_ptr_array_index (lane->events, i));
  g_ptr_array_unref (lane->events);
  g_clear_pointer (&lane->staged, tps_buffer_unref);
  g_clear_pointer (&lane->memory, tps_buffer_unref);
  g_free (lane);
}

void
tps_device_lanes_free (TpsDeviceLanes *lanes)
{
  for (TpsDeviceLane *lane = lanes->idle, *next; lane != NULL; lane = next)
    {
      next = lane->next;
      destroy_lane (lane);
    }
  tps_buffer_pool_unref (lanes->answers);
  tps_mutex_clear (&lanes->lock);
  g_free (lanes);
}

TpsDeviceLane *
tps_device_lane_new (TpsDeviceLanes *lanes, GError **error)
{
  TpsDeviceLane *lane;

  tps_mutex_lock (&lanes->lock);
  lane = lanes->idle;
  if (lane != NULL)
    lanes->idle = lane->next;
  tps_mutex_unlock (&lanes->lock);
  if (lane != NULL)
    return lane;
  lane = g_new0 (TpsDeviceLane, 1);
  lane->lanes = lanes;
  lane->events = g_ptr_array_new ();
  lane->stream = lanes->device->ops->stream_new (lanes->device, error);
  if (lane->stream != NULL)
    return lane;
  destroy_lane (lane);
  return NULL;
}

static void
drop_if_large (TpsBuffer **buffer)
{
  if (*buffer != NULL && tps_buffer_get_size (*buffer) > MAX_KEPT_BYTES)
    g_clear_pointer (buffer, tps_buffer_unref);
}

/* A lane with a failed stream is not kept. */
void
tps_device_lane_free (TpsDeviceLane *lane)
{
  TpsDeviceLanes *lanes = lane->lanes;

  if (!lanes->device->ops->stream_sync (lane->stream, NULL))
    {
      destroy_lane (lane);
      return;
    }
  drop_if_large (&lane->staged);
  drop_if_large (&lane->memory);
  tps_mutex_lock (&lanes->lock);
  lane->next = lanes->idle;
  lanes->idle = lane;
  tps_mutex_unlock (&lanes->lock);
}

typedef TpsBuffer *(*Alloc) (TpsDevice *device, gsize n_bytes, GError **error);

/* Allocates a quarter more than requested, so that slowly growing calls do not allocate each
 * time. */
static gboolean
provide (TpsBuffer **buffer, TpsDevice *device, Alloc alloc, gsize n_bytes, GError **error)
{
  gsize n_spare = n_bytes <= MAX_KEPT_BYTES ? n_bytes / 4 : 0;

  if (n_bytes == 0 || (*buffer != NULL && tps_buffer_get_size (*buffer) >= n_bytes))
    return TRUE;
  g_clear_pointer (buffer, tps_buffer_unref);
  *buffer = alloc (device, MAX (n_bytes + n_spare, MIN_BYTES), error);
  return *buffer != NULL;
}

gboolean
tps_device_lane_provide (TpsDeviceLane *lane, gsize n_staged_bytes, gsize n_memory_bytes,
                         guint n_events, GError **error)
{
  TpsDevice *device = lane->lanes->device;

  while (lane->events->len < n_events)
    {
      TpsEvent *event = device->ops->event_new (device, error);

      if (event == NULL)
        return FALSE;
      g_ptr_array_add (lane->events, event);
    }
  return provide (&lane->staged, device, device->ops->alloc_host, n_staged_bytes, error)
         && provide (&lane->memory, device, device->ops->alloc, n_memory_bytes, error);
}
