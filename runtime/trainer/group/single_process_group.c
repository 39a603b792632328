/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A group of one rank. A sum leaves the data unchanged, and a gather copies them. */

#include "runtime/trainer/group/process_groups.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

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

  tps_mutex_lock (&self->lock);
  self->is_aborted = TRUE;
  tps_mutex_unlock (&self->lock);
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

TpsProcessGroup *
tps_single_process_group_new (void)
{
  SingleGroup *self = g_new0 (SingleGroup, 1);

  self->base.ops = &single_ops;
  self->base.size = 1;
  tps_mutex_init (&self->lock);
  return &self->base;
}
