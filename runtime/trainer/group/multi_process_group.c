/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A group for two kinds of memory: it uses Gloo for host memory, and the device group for device
 * memory. Either all ranks use both groups, or all ranks use Gloo alone. The ranks agree on this
 * over Gloo before they join the device group. */

#include <string.h>

#include "runtime/trainer/group/process_groups.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

typedef struct
{
  TpsProcessGroup base;
  const TpsDeviceGroups *devices;
  TpsProcessGroup *on_host;   /* owned */
  TpsProcessGroup *on_device; /* owned */
} MultiGroup;

static TpsProcessGroup *
group_for (TpsProcessGroup *group, gconstpointer memory)
{
  MultiGroup *self = (MultiGroup *) group;

  return self->devices->is_device_memory (memory) ? self->on_device : self->on_host;
}

static void
multi_all_reduce_f32 (TpsProcessGroup *group, gfloat *data, gsize n_elems, TpsCollectiveDone done,
                      gpointer user_data)
{
  TpsProcessGroup *chosen = group_for (group, data);

  chosen->ops->all_reduce_f32 (chosen, data, n_elems, done, user_data);
}

/* `data` is always in device memory, because only device memory has a `ready` event. */
static void
multi_all_reduce_f32_after (TpsProcessGroup *group, TpsEvent *ready, gfloat *data, gsize n_elems,
                            TpsCollectiveDone done, gpointer user_data)
{
  TpsProcessGroup *on_device = ((MultiGroup *) group)->on_device;

  on_device->ops->all_reduce_f32_after (on_device, ready, data, n_elems, done, user_data);
}

static void
multi_average (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
               gpointer user_data)
{
  TpsProcessGroup *chosen = group_for (group, average->data);

  chosen->ops->average (chosen, average, done, user_data);
}

static void
multi_all_gather_bytes (TpsProcessGroup *group, gconstpointer data, gsize n_bytes, gsize *counts,
                        TpsBuffer **gathered, TpsCollectiveDone done, gpointer user_data)
{
  TpsProcessGroup *chosen = group_for (group, data);

  chosen->ops->all_gather_bytes (chosen, data, n_bytes, counts, gathered, done, user_data);
}

static TpsBuffer *
multi_get_memory (TpsProcessGroup *group, gsize n_bytes, TpsBuffer *current)
{
  TpsProcessGroup *on_host = ((MultiGroup *) group)->on_host;

  return on_host->ops->get_memory (on_host, n_bytes, current);
}

static void
multi_abort (TpsProcessGroup *group)
{
  MultiGroup *self = (MultiGroup *) group;

  self->on_device->ops->abort (self->on_device);
  self->on_host->ops->abort (self->on_host);
}

static void
multi_free (TpsProcessGroup *group)
{
  MultiGroup *self = (MultiGroup *) group;

  self->on_device->ops->free (self->on_device);
  self->on_host->ops->free (self->on_host);
  g_free (self);
}

static const TpsProcessGroupOps multi_ops = {
  .name = "multi",
  .all_reduce_f32 = multi_all_reduce_f32,
  .average = multi_average,
  .all_gather_bytes = multi_all_gather_bytes,
  .abort = multi_abort,
  .free = multi_free,
  .all_reduce_f32_after = multi_all_reduce_f32_after,
  .get_memory = multi_get_memory,
  .averages_f32 = TRUE,
  .host_name = "gloo",
  .device_name = "nccl",
};

/* -- agreement of the ranks -- */

typedef struct
{
  TpsMutex lock;
  TpsCond changed;
  gboolean is_done; /* under the lock */
  GError *error;    /* under the lock */
} Gathering;

static void
on_gathered (gpointer user_data, const GError *error)
{
  Gathering *gathering = user_data;

  tps_mutex_lock (&gathering->lock);
  gathering->error = error != NULL ? g_error_copy (error) : NULL;
  gathering->is_done = TRUE;
  tps_cond_signal (&gathering->changed);
  tps_mutex_unlock (&gathering->lock);
}

static gboolean
wait_until_gathered (Gathering *gathering, GError **error)
{
  tps_mutex_lock (&gathering->lock);
  while (!gathering->is_done)
    tps_cond_wait (&gathering->changed, &gathering->lock);
  tps_mutex_unlock (&gathering->lock);
  tps_cond_clear (&gathering->changed);
  tps_mutex_clear (&gathering->lock);
  if (gathering->error == NULL)
    return TRUE;
  g_propagate_error (error, gathering->error);
  return FALSE;
}

/* Returns TRUE if `mine` is TRUE on all ranks. Blocks. Returns FALSE without an error if it is
 * FALSE on a rank, and FALSE with an error if the exchange fails. */
static gboolean
all_agree (TpsProcessGroup *on_host, gboolean mine, GError **error)
{
  g_autofree gsize *counts = g_new0 (gsize, on_host->size);
  g_autoptr (TpsBuffer) answers = NULL;
  guint8 answer = mine ? 1 : 0;
  Gathering gathering = { 0 };

  tps_mutex_init (&gathering.lock);
  tps_cond_init (&gathering.changed);
  on_host->ops->all_gather_bytes (on_host, &answer, sizeof answer, counts, &answers, on_gathered,
                                  &gathering);
  return wait_until_gathered (&gathering, error)
         && memchr (tps_buffer_get_data (answers), 0, tps_buffer_get_size (answers)) == NULL;
}

static TpsProcessGroup *
make_group (const TpsDeviceGroups *devices, TpsProcessGroup *on_host, TpsProcessGroup *on_device)
{
  MultiGroup *self = g_new0 (MultiGroup, 1);

  self->base = (TpsProcessGroup) { .ops = &multi_ops,
                                   .rank = on_host->rank,
                                   .size = on_host->size };
  self->devices = devices;
  self->on_host = on_host;
  self->on_device = on_device;
  return &self->base;
}

TpsProcessGroup *
tps_multi_process_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  const TpsDeviceGroups *devices = tps_device_groups_find (NULL);
  TpsProcessGroup *on_host = tps_gloo_process_group_new (options, error);
  TpsProcessGroup *on_device = NULL;
  g_autoptr (GError) failure = NULL;

  if (on_host == NULL)
    return NULL;
  if (!all_agree (on_host, devices != NULL && devices->check_usable (NULL), &failure))
    {
      if (failure == NULL)
        return on_host;
    }
  else if ((on_device = tps_device_process_group_new (options, &failure)) != NULL)
    return make_group (devices, on_host, on_device);
  on_host->ops->abort (on_host);
  on_host->ops->free (on_host);
  g_propagate_error (error, g_steal_pointer (&failure));
  return NULL;
}
