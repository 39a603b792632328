/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/process_groups.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_library.h"
#include "runtime/trainer/group/device_groups.h"
#include "runtime/trainer/group/rank_order.h"

/* -- one rank -- */

/* A group of one rank. A sum leaves the data unchanged, and a gather copies them. */

typedef struct
{
  TpsProcessGroup base;
  TpsMutex lock;
  gboolean is_aborted; /* under the lock */
} SingleGroup;

/* Returns the error of an aborted group, owned by the caller. Returns NULL while the group is
 * open. */
static GError *
dup_error (SingleGroup *self)
{
  gboolean is_aborted;

  tps_mutex_lock (&self->lock);
  is_aborted = self->is_aborted;
  tps_mutex_unlock (&self->lock);
  if (!is_aborted)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_GROUP_BROKEN,
                      "the process group was closed by this rank");
}

static void
single_all_reduce_f32 (TpsProcessGroup *group, gfloat *data, gsize n_elems, TpsCollectiveDone done,
                       gpointer user_data)
{
  g_autoptr (GError) error = dup_error ((SingleGroup *) group);

  done (user_data, error);
}

/* The data stay unchanged, so this works for device memory too and need not wait for `ready`. */
static void
single_all_reduce_f32_after (TpsProcessGroup *group, TpsEvent *ready, gfloat *data, gsize n_elems,
                             TpsCollectiveDone done, gpointer user_data)
{
  single_all_reduce_f32 (group, data, n_elems, done, user_data);
}

/* With weight 1, the sum and the average equal the elements, which are neither read nor written. */
static void
single_average (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
                gpointer user_data)
{
  g_autoptr (GError) error = dup_error ((SingleGroup *) group);
  gconstpointer part = average->data;

  if (error == NULL && average->weight != 1)
    tps_average_in_rank_order (average->dtype, average->data, &part, &average->weight, 1,
                               average->delivers_sum ? 1 : average->weight, average->n_elems);
  done (user_data, error);
}

static void
single_all_gather_bytes (TpsProcessGroup *group, gconstpointer data, gsize n_bytes, gsize *counts,
                         TpsBuffer **gathered, TpsCollectiveDone done, gpointer user_data)
{
  g_autoptr (GError) error = dup_error ((SingleGroup *) group);

  if (error == NULL)
    {
      counts[0] = n_bytes;
      *gathered = tps_buffer_new (n_bytes);
      if (n_bytes > 0)
        memcpy (tps_buffer_get_data (*gathered), data, n_bytes);
    }
  done (user_data, error);
}

static void
single_abort (TpsProcessGroup *group)
{
  SingleGroup *self = (SingleGroup *) group;

  TPS_LOCK_SCOPE (&self->lock);
  self->is_aborted = TRUE;
}

static void
single_free (TpsProcessGroup *group)
{
  SingleGroup *self = (SingleGroup *) group;

  tps_mutex_clear (&self->lock);
  g_free (self);
}

static const TpsProcessGroupOps single_ops = {
  .name = "single",
  .all_reduce_f32 = single_all_reduce_f32,
  .average = single_average,
  .all_gather_bytes = single_all_gather_bytes,
  .abort = single_abort,
  .free = single_free,
  .all_reduce_f32_after = single_all_reduce_f32_after,
  .averages_f32 = TRUE,
};

static TpsProcessGroup *
single_group_new (void)
{
  SingleGroup *self = g_new0 (SingleGroup, 1);

  self->base.ops = &single_ops;
  self->base.size = 1;
  tps_mutex_init (&self->lock);
  return &self->base;
}

/* -- "nccl" -- */

static const TpsDeviceGroups *
device_groups_find (GError **error)
{
  const TpsLoadedLibrary *loaded = tps_device_library_get ();
  const TpsDeviceGroups *groups = NULL;

  if (loaded->library != NULL)
    groups = loaded->library->find_interface (TPS_DEVICE_GROUPS_INTERFACE);
  if (groups == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND,
                 "backend 'nccl' needs a CUDA device, and this process has none; use gloo (%s)",
                 loaded->summary);
  return groups;
}

static TpsProcessGroup *
device_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  const TpsDeviceGroups *groups = device_groups_find (error);
  const GPtrArray *devices = tps_device_library_get ()->devices;
  TpsProcessGroupOptions chosen = *options;

  if (groups == NULL)
    return NULL;
  if (chosen.device == NULL)
    chosen.device = g_ptr_array_index (devices, options->rank % devices->len);
  return groups->group_new (&chosen, error);
}

/* -- "multi" -- */

/* A group for two kinds of memory: it uses Gloo for host memory, and the device group for device
 * memory. Either all ranks use both groups, or all ranks use Gloo alone. The ranks agree on this
 * over Gloo before they join the device group. */

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

static void
on_gathered (gpointer user_data, const GError *error)
{
  tps_outcome_set (user_data, error);
}

/* Returns TRUE if `mine` is TRUE on all ranks. Blocks. Returns FALSE without an error if it is
 * FALSE on a rank, and FALSE with an error if the exchange fails. */
static gboolean
all_agree (TpsProcessGroup *on_host, gboolean mine, GError **error)
{
  g_autofree gsize *counts = g_new0 (gsize, on_host->size);
  g_autoptr (TpsBuffer) answers = NULL;
  guint8 answer = mine ? 1 : 0;
  TpsOutcome gathering;

  tps_outcome_init (&gathering);
  on_host->ops->all_gather_bytes (on_host, &answer, sizeof answer, counts, &answers, on_gathered,
                                  &gathering);
  return tps_outcome_wait (&gathering, error)
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

static TpsProcessGroup *
multi_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  const TpsDeviceGroups *devices = device_groups_find (NULL);
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
  else if ((on_device = device_group_new (options, &failure)) != NULL)
    return make_group (devices, on_host, on_device);
  on_host->ops->abort (on_host);
  on_host->ops->free (on_host);
  g_propagate_error (error, g_steal_pointer (&failure));
  return NULL;
}

/* -- by name -- */

typedef TpsProcessGroup *(*GroupConstructor) (const TpsProcessGroupOptions *options,
                                              GError **error);

static const struct
{
  const gchar *name;
  GroupConstructor construct;
} backends[] = {
  { "gloo", tps_gloo_process_group_new },
  { "multi", multi_group_new },
  { "nccl", device_group_new },
};

static gint
find_backend (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    if (g_strcmp0 (backends[i].name, name) == 0)
      return (gint) i;
  return -1;
}

gboolean
tps_process_group_check_backend (const gchar *backend, GError **error)
{
  if (find_backend (backend) >= 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_NOT_FOUND, "unknown backend \"%s\"; known: gloo, multi, nccl",
                   backend == NULL ? "" : backend);
}

gboolean
tps_process_group_check_usable (const gchar *backend, GError **error)
{
  const TpsDeviceGroups *groups;

  if (!tps_process_group_check_backend (backend, error))
    return FALSE;
  if (!g_str_equal (backend, "nccl"))
    return TRUE;
  groups = device_groups_find (error);
  return groups != NULL && groups->check_usable (error);
}

static gboolean
check_options (const TpsProcessGroupOptions *options, GError **error)
{
  if (options->rank < options->size && (options->size == 1 || options->store != NULL)
      && options->timeout_ns > 0)
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "process group: rank %u of %u, timeout %" G_GINT64_FORMAT
      " ns: expected a rank below the size, a positive timeout, and a store if the size is not 1",
      options->rank, options->size, options->timeout_ns);
}

/* Creates the group of a single rank. With a device, the rank uses the device group. If there is no
 * usable device group, "multi" uses the group without a device, and other backends fail. */
static TpsProcessGroup *
new_alone (const gchar *backend, const TpsProcessGroupOptions *options, GError **error)
{
  const TpsDeviceGroups *devices;

  if (options->device == NULL)
    return single_group_new ();
  devices = device_groups_find (error);
  if (g_strcmp0 (backend, "multi") == 0 && (devices == NULL || !devices->check_usable (NULL)))
    {
      g_clear_error (error);
      return single_group_new ();
    }
  return devices != NULL ? device_group_new (options, error) : NULL;
}

TpsProcessGroup *
tps_process_group_new (const gchar *backend, const TpsProcessGroupOptions *options, GError **error)
{
  if (!check_options (options, error))
    return NULL;
  if (options->size == 1)
    return new_alone (backend, options, error);
  if (!tps_process_group_check_backend (backend, error))
    return NULL;
  return backends[find_backend (backend)].construct (options, error);
}
