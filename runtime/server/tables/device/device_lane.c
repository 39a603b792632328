/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/device/device_lane.h"

#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"

/* Larger blocks of memory are released at the end of the call, so that one large push does not
 * occupy its memory for ever. */
#define MAX_KEPT_BYTES ((gsize) 256 << 20)
#define MIN_BYTES ((gsize) 64 << 10)

static gsize
drop_staged (TpsDeviceLane *lane)
{
  gsize n_bytes = lane->charge.n_bytes;

  g_clear_pointer (&lane->staged, tps_buffer_unref);
  tps_charge_clear (&lane->charge);
  return n_bytes;
}

static gsize
reclaim_staged (gpointer user_data, gsize n_bytes)
{
  TpsDeviceLanes *lanes = user_data;
  gsize n_freed = 0;

  TPS_LOCK_SCOPE (&lanes->lock);
  for (TpsDeviceLane *lane = lanes->idle; lane != NULL && n_freed < n_bytes; lane = lane->next)
    n_freed += drop_staged (lane);
  return n_freed;
}

/* Frees the device's memory of all idle lanes. Returns TRUE if there was any. */
static gboolean
free_idle_memory (gpointer user_data)
{
  TpsDeviceLanes *lanes = user_data;
  gboolean was_there = FALSE;

  TPS_LOCK_SCOPE (&lanes->lock);
  for (TpsDeviceLane *lane = lanes->idle; lane != NULL; lane = lane->next)
    {
      was_there |= lane->memory != NULL;
      g_clear_pointer (&lane->memory, tps_buffer_unref);
    }
  return was_there;
}

TpsDeviceLanes *
tps_device_lanes_new (TpsDevice *device, TpsBudget *answers, TpsBudget *scratch, TpsBudget *kept)
{
  TpsDeviceLanes *lanes = g_new0 (TpsDeviceLanes, 1);

  lanes->device = device;
  lanes->answers = tps_pinned_pool_new (device, answers, kept, MAX_KEPT_BYTES);
  tps_mutex_init (&lanes->lock);
  tps_idle_memory_init (&lanes->idle_memory, device, free_idle_memory, lanes);
  if (scratch != NULL)
    {
      lanes->scratch = tps_budget_ref (scratch);
      lanes->reclaimer = tps_budget_add_reclaimer (scratch, reclaim_staged, lanes);
    }
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
  drop_staged (lane);
  g_clear_pointer (&lane->memory, tps_buffer_unref);
  g_free (lane);
}

void
tps_device_lanes_free (TpsDeviceLanes *lanes)
{
  if (lanes->scratch != NULL)
    tps_budget_remove_reclaimer (lanes->scratch, lanes->reclaimer);
  for (TpsDeviceLane *lane = lanes->idle, *next; lane != NULL; lane = next)
    {
      next = lane->next;
      destroy_lane (lane);
    }
  g_clear_pointer (&lanes->scratch, tps_budget_unref);
  tps_buffer_pool_unref (lanes->answers);
  tps_idle_memory_clear (&lanes->idle_memory);
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
  lane->charge.budget = lanes->scratch;
  lane->events = g_ptr_array_new ();
  lane->stream = lanes->device->ops->stream_new (lanes->device, error);
  if (lane->stream != NULL)
    return lane;
  destroy_lane (lane);
  return NULL;
}

static gboolean
is_large (const TpsBuffer *buffer)
{
  return buffer != NULL && tps_buffer_get_size (buffer) > MAX_KEPT_BYTES;
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
  if (is_large (lane->staged))
    drop_staged (lane);
  if (is_large (lane->memory))
    g_clear_pointer (&lane->memory, tps_buffer_unref);
  TPS_LOCK_SCOPE (&lanes->lock);
  lane->next = lanes->idle;
  lanes->idle = lane;
}

/* Returns a quarter more than requested, so that slowly growing calls do not allocate each time. */
static gsize
add_spare (gsize n_bytes)
{
  gsize n_spare = n_bytes <= MAX_KEPT_BYTES ? n_bytes / 4 : 0;

  return MAX (n_bytes + n_spare, MIN_BYTES);
}

static gboolean
suffices (const TpsBuffer *buffer, gsize n_bytes)
{
  return n_bytes == 0 || (buffer != NULL && tps_buffer_get_size (buffer) >= n_bytes);
}

static gboolean
provide_staged (TpsDeviceLane *lane, gsize n_bytes, GError **error)
{
  TpsDevice *device = lane->lanes->device;

  if (suffices (lane->staged, n_bytes))
    return TRUE;
  drop_staged (lane);
  /* If the budget has no room for the spare bytes, the requested bytes alone are charged. */
  if (tps_charge_set (&lane->charge, add_spare (n_bytes), NULL))
    n_bytes = add_spare (n_bytes);
  else if (!tps_charge_set (&lane->charge, n_bytes, error))
    return FALSE;
  lane->staged = device->ops->alloc_host (device, n_bytes, error);
  if (lane->staged == NULL)
    tps_charge_clear (&lane->charge);
  return lane->staged != NULL;
}

static gboolean
provide_memory (TpsDeviceLane *lane, gsize n_bytes, GError **error)
{
  if (suffices (lane->memory, n_bytes))
    return TRUE;
  g_clear_pointer (&lane->memory, tps_buffer_unref);
  lane->memory = tps_idle_memory_alloc (&lane->lanes->idle_memory, add_spare (n_bytes), error);
  return lane->memory != NULL;
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
  return provide_staged (lane, n_staged_bytes, error)
         && provide_memory (lane, n_memory_bytes, error);
}
