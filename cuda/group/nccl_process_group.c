/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A process group on NCCL.
 *
 * Joining: each rank puts a key into the store. The value of rank 0 is NCCL's unique id. When all
 * keys exist, the communicator is created. If a key is missing at the deadline, the error names its
 * rank.
 *
 * Jobs: the group's thread takes jobs from a queue and completes them one after another. They
 * thus overlap with the work on the caller's streams. A job may be queued before its data are
 * complete (all_reduce_f32_after).
 *
 * Failures: a lost peer, a deadline, a lost device or abort() ends the job and breaks the group.
 * The communicator is then aborted, which the other ranks notice. Later calls fail at once with the
 * same message.
 *
 * Threads: `lock` guards the members that are marked. All other members belong to the group's
 * thread while it runs. */

#include "cuda/group/nccl_process_group.h"

#include <string.h>

#include "cuda/group/collectives.h"
#include "runtime/trainer/group/join_wait.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

#define KEY_PREFIX "nccl_rank_"
#define FAREWELL_LIMIT_NS G_GINT64_CONSTANT (5000000000) /* the longest wait at the end */

typedef struct
{
  TpsProcessGroup base;
  TpsCommunicator communicator;
  TpsCollectives collectives;
  gint64 timeout_ns;
  TpsThread thread;

  TpsMutex lock;
  TpsCond changed;
  GQueue jobs;          /* under the lock; of Job */
  gboolean is_stopping; /* under the lock */
  gboolean is_aborted;  /* under the lock */
  gchar *broken;        /* under the lock; NULL while the group works */
} NcclGroup;

typedef struct Job Job;

struct Job
{
  const gchar *name;
  gboolean (*run) (NcclGroup *self, Job *job, GError **error);
  TpsCollectiveDone done;
  gpointer user_data;

  /* The arguments of all_reduce_f32_after(). */
  TpsEvent *ready;
  gfloat *data;
  gsize n_elems;

  TpsAverage *average; /* the argument of average() */

  /* The arguments of all_gather_bytes(). */
  gconstpointer sent;
  gsize n_bytes;
  gsize *counts;
  TpsBuffer **gathered;
};

static gboolean
run_all_reduce (NcclGroup *self, Job *job, GError **error)
{
  return tps_collectives_all_reduce_f32 (&self->collectives, job->ready, job->data, job->n_elems,
                                         error);
}

static gboolean
run_average (NcclGroup *self, Job *job, GError **error)
{
  return tps_collectives_average (&self->collectives, job->average, error);
}

static gboolean
run_all_gather (NcclGroup *self, Job *job, GError **error)
{
  return tps_collectives_all_gather_bytes (&self->collectives, job->sent, job->n_bytes, job->counts,
                                           job->gathered, error);
}

/* -- the group's thread -- */

/* Returns the reason why the group is broken, owned by the caller; NULL while it works. */
static gchar *
dup_broken (NcclGroup *self)
{
  gchar *broken;

  tps_mutex_lock (&self->lock);
  broken = g_strdup (self->broken);
  tps_mutex_unlock (&self->lock);
  return broken;
}

static gboolean
is_aborted_func (gpointer user_data)
{
  NcclGroup *self = user_data;
  gboolean is_aborted;

  tps_mutex_lock (&self->lock);
  is_aborted = self->is_aborted;
  tps_mutex_unlock (&self->lock);
  return is_aborted;
}

static void
break_group (NcclGroup *self, const Job *job, const GError *failure)
{
  tps_mutex_lock (&self->lock);
  if (self->broken == NULL)
    self->broken = g_strdup_printf ("%s on rank %u of %u: %s", job->name, self->base.rank,
                                    self->base.size, failure->message);
  tps_mutex_unlock (&self->lock);
  tps_communicator_abort (&self->communicator);
  tps_collectives_drop (&self->collectives);
}

static void
set_deadline (NcclGroup *self, gint64 timeout_ns)
{
  self->communicator.timeout_ns = timeout_ns;
  self->communicator.deadline_ns = tps_clock_now_ns () + timeout_ns;
}

/* Reports the end of a job and frees it. If the group is broken, even a job that has succeeded
 * fails. */
static void
end_job (NcclGroup *self, Job *job)
{
  g_autofree gchar *broken = dup_broken (self);
  g_autoptr (GError) error = NULL;

  if (broken != NULL)
    {
      error = g_error_new_literal (TPS_ERROR, TPS_ERROR_GROUP_BROKEN, broken);
      if (job->gathered != NULL)
        g_clear_pointer (job->gathered, tps_buffer_unref);
    }
  job->done (job->user_data, error);
  g_free (job);
}

/* Runs the job unless the group is broken, breaks the group if the job fails, and reports the end
 * in both cases. */
static void
run_job (NcclGroup *self, Job *job)
{
  g_autofree gchar *broken = dup_broken (self);
  g_autoptr (GError) failure = NULL;

  set_deadline (self, self->timeout_ns);
  if (broken == NULL && !job->run (self, job, &failure))
    break_group (self, job, failure);
  end_job (self, job);
}

/* Waits for a job and returns it. Returns NULL if the group is stopping and its queue is empty. */
static Job *
take_job (NcclGroup *self)
{
  Job *job;

  tps_mutex_lock (&self->lock);
  while (!self->is_stopping && g_queue_is_empty (&self->jobs))
    tps_cond_wait (&self->changed, &self->lock);
  job = g_queue_pop_head (&self->jobs);
  tps_mutex_unlock (&self->lock);
  return job;
}

static void *
run_group (void *user_data)
{
  NcclGroup *self = user_data;
  Job *job;

  while ((job = take_job (self)) != NULL)
    run_job (self, job);
  set_deadline (self, MIN (self->timeout_ns, FAREWELL_LIMIT_NS));
  tps_collectives_clear (&self->collectives);
  tps_communicator_clear (&self->communicator);
  return NULL;
}

/* -- the table of functions -- */

static void
enqueue (TpsProcessGroup *group, const Job *job)
{
  NcclGroup *self = (NcclGroup *) group;

  tps_mutex_lock (&self->lock);
  g_queue_push_tail (&self->jobs, g_memdup2 (job, sizeof *job));
  tps_cond_signal (&self->changed);
  tps_mutex_unlock (&self->lock);
}

static void
nccl_all_reduce_f32_after (TpsProcessGroup *group, TpsEvent *ready, gfloat *data, gsize n_elems,
                           TpsCollectiveDone done, gpointer user_data)
{
  enqueue (group, &(Job) { .name = "all-reduce",
                           .run = run_all_reduce,
                           .done = done,
                           .user_data = user_data,
                           .ready = ready,
                           .data = data,
                           .n_elems = n_elems });
}

static void
nccl_all_reduce_f32 (TpsProcessGroup *group, gfloat *data, gsize n_elems, TpsCollectiveDone done,
                     gpointer user_data)
{
  nccl_all_reduce_f32_after (group, NULL, data, n_elems, done, user_data);
}

static void
nccl_average (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
              gpointer user_data)
{
  enqueue (group, &(Job) { .name = "average",
                           .run = run_average,
                           .done = done,
                           .user_data = user_data,
                           .average = average });
}

static void
nccl_all_gather_bytes (TpsProcessGroup *group, gconstpointer data, gsize n_bytes, gsize *counts,
                       TpsBuffer **gathered, TpsCollectiveDone done, gpointer user_data)
{
  *gathered = NULL;
  enqueue (group, &(Job) { .name = "all-gather",
                           .run = run_all_gather,
                           .done = done,
                           .user_data = user_data,
                           .sent = data,
                           .n_bytes = n_bytes,
                           .counts = counts,
                           .gathered = gathered });
}

static void
nccl_abort (TpsProcessGroup *group)
{
  NcclGroup *self = (NcclGroup *) group;

  tps_mutex_lock (&self->lock);
  self->is_aborted = TRUE;
  if (self->broken == NULL)
    self->broken = g_strdup ("the process group was closed by this rank");
  tps_mutex_unlock (&self->lock);
}

/* Frees the members that the group's thread does not free. */
static void
free_group (NcclGroup *self)
{
  tps_cond_clear (&self->changed);
  tps_mutex_clear (&self->lock);
  g_free (self->broken);
  g_free (self);
}

static void
nccl_free (TpsProcessGroup *group)
{
  NcclGroup *self = (NcclGroup *) group;

  tps_mutex_lock (&self->lock);
  self->is_stopping = TRUE;
  tps_cond_signal (&self->changed);
  tps_mutex_unlock (&self->lock);
  tps_sync_check (pthread_join (self->thread, NULL));
  free_group (self);
}

static const TpsProcessGroupOps nccl_ops = {
  .name = "nccl",
  .all_reduce_f32 = nccl_all_reduce_f32,
  .average = nccl_average,
  .all_gather_bytes = nccl_all_gather_bytes,
  .abort = nccl_abort,
  .free = nccl_free,
  .all_reduce_f32_after = nccl_all_reduce_f32_after,
};

/* -- joining -- */

static GBytes *
make_unique_id (const TpsNccl *nccl, GError **error)
{
  ncclUniqueId id;
  ncclResult_t code = nccl->get_unique_id (&id);

  if (code == ncclSuccess)
    return g_bytes_new (&id, sizeof id);
  g_set_error (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN, "process group: unique id: NCCL: %s (%s)",
               nccl->get_error_string (code), nccl->get_last_error (NULL));
  return NULL;
}

static gboolean
announce (NcclGroup *self, const TpsProcessGroupOptions *options, GError **error)
{
  g_autofree gchar *key = g_strdup_printf (KEY_PREFIX "%u", options->rank);
  g_autoptr (GBytes) value = NULL;

  value = options->rank == 0 ? make_unique_id (self->communicator.nccl, error)
                             : g_bytes_new (NULL, 0);
  return value != NULL && tps_join_put (options, key, value, error);
}

static gboolean
read_unique_id (GBytes *value, ncclUniqueId *id, GError **error)
{
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (value, &n_bytes);

  if (n_bytes != sizeof *id)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "process group: rank 0 stored %" G_GSIZE_FORMAT
                   " bytes, expected an id of %" G_GSIZE_FORMAT "; do all ranks use nccl?",
                   n_bytes, sizeof *id);
      return FALSE;
    }
  memcpy (id, data, n_bytes);
  return TRUE;
}

/* Announces this rank, and waits for the keys of all ranks. Sets `id`. */
static gboolean
meet (NcclGroup *self, const TpsProcessGroupOptions *options, ncclUniqueId *id, GError **error)
{
  if (!announce (self, options, error))
    return FALSE;
  for (guint rank = 0; rank < options->size; rank++)
    {
      g_autofree gchar *key = g_strdup_printf (KEY_PREFIX "%u", rank);
      g_autoptr (GBytes) value = tps_join_wait (options, key, key + strlen (KEY_PREFIX),
                                                self->communicator.deadline_ns, error);

      if (value == NULL || (rank == 0 && !read_unique_id (value, id, error)))
        return FALSE;
    }
  return TRUE;
}

/* Finds the unique id of the group. A group of one rank does not need the store. */
static gboolean
find_unique_id (NcclGroup *self, const TpsProcessGroupOptions *options, ncclUniqueId *id,
                GError **error)
{
  g_autoptr (GBytes) own = NULL;

  if (options->size > 1)
    return meet (self, options, id, error);
  own = make_unique_id (self->communicator.nccl, error);
  return own != NULL && read_unique_id (own, id, error);
}

static gboolean
join (NcclGroup *self, const TpsProcessGroupOptions *options, GError **error)
{
  ncclUniqueId id;

  self->communicator.is_cancelled = options->is_cancelled;
  self->communicator.user_data = options->user_data;
  set_deadline (self, options->timeout_ns);
  if (!tps_cuda_device_enter (self->communicator.device, error)
      || !find_unique_id (self, options, &id, error))
    return FALSE;
  if (!tps_communicator_join (&self->communicator, &id, error))
    {
      g_prefix_error (error, "process group: rank %u of %u on %s: ", options->rank, options->size,
                      options->device->name);
      return FALSE;
    }
  self->communicator.is_cancelled = is_aborted_func;
  self->communicator.user_data = self;
  return TRUE;
}

static NcclGroup *
make_group (const TpsProcessGroupOptions *options, const TpsNccl *nccl)
{
  NcclGroup *self = g_new0 (NcclGroup, 1);

  self->base = (TpsProcessGroup) { .ops = &nccl_ops, .rank = options->rank, .size = options->size };
  self->communicator = (TpsCommunicator) { .nccl = nccl,
                                           .device = (TpsCudaDevice *) options->device,
                                           .rank = options->rank,
                                           .size = options->size };
  self->timeout_ns = options->timeout_ns;
  tps_collectives_init (&self->collectives, &self->communicator);
  tps_mutex_init (&self->lock);
  tps_cond_init (&self->changed);
  g_queue_init (&self->jobs);
  return self;
}

static TpsProcessGroup *
nccl_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  const TpsNccl *nccl = tps_nccl_get (error);
  NcclGroup *self;

  if (nccl == NULL)
    return NULL;
  self = make_group (options, nccl);
  if (!join (self, options, error)
      || !tps_thread_start (&self->thread, "tps-nccl", run_group, self, error))
    {
      tps_communicator_abort (&self->communicator);
      tps_communicator_clear (&self->communicator);
      free_group (self);
      return NULL;
    }
  return &self->base;
}

static gboolean
check_usable (GError **error)
{
  return tps_nccl_get (error) != NULL;
}

static gboolean
is_device_memory (gconstpointer memory)
{
  return tps_cuda_place_of (memory) == TPS_CUDA_PLACE_DEVICE;
}

const TpsDeviceGroups tps_nccl_groups = {
  .group_new = nccl_group_new,
  .check_usable = check_usable,
  .is_device_memory = is_device_memory,
};
