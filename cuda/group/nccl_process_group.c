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

#include <math.h>
#include <sched.h>
#include <string.h>

#include "cuda/device/device.h"
#include "cuda/group/nccl.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/trainer/group/join_wait.h"
#include "runtime/trainer/ports/process_group.h"

/* ---- the communicator ------------------------------------------------------------------------ */

/* An NCCL communicator with bounded waits only, and the stream of its work.
 *
 * NCCL is used in non-blocking mode. If a call returns ncclInProgress, the communicator must not be
 * used until the call is complete; settle() waits for the call. The work of a call is done when an
 * event recorded after the call is reached; wait() waits for the event. Both fail when the deadline
 * has passed, when the group is cancelled, or when NCCL reports a lost peer or network. Then
 * abort() must be called next, which also ends the work on the device.
 *
 * Thread: one at a time.
 */

typedef struct
{
  const TpsNccl *nccl;
  ncclComm_t comm; /* NULL before the rank has joined, and after an abort */
  TpsCudaDevice *device;
  TpsStream *stream; /* owned */
  guint rank, size;

  /* Limits of the current step; set by the owner. */
  gint64 deadline_ns; /* monotonic */
  gint64 timeout_ns;  /* the duration behind the deadline, for messages */
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsCommunicator;

#define N_SPINS 64
#define SHORTEST_PAUSE_US 20
#define LONGEST_PAUSE_US 1000

/* Pauses between two polls. The pause grows, because short collectives take about ten microseconds,
 * while a wait for a lost peer may take minutes. */
static void
pause_poll (guint n_polls)
{
  guint doubled = MIN ((n_polls - MIN (n_polls, N_SPINS)) / N_SPINS, 8);

  if (n_polls < N_SPINS)
    sched_yield ();
  else
    g_usleep (MIN (SHORTEST_PAUSE_US << doubled, LONGEST_PAUSE_US));
}

static gboolean
check_limits (TpsCommunicator *self, const gchar *what, GError **error)
{
  if (self->is_cancelled != NULL && self->is_cancelled (self->user_data))
    return tps_fail (error, TPS_ERROR_ABORTED, "%s: aborted", what);
  if (tps_clock_now_ns () < self->deadline_ns)
    return TRUE;
  return tps_fail (error, TPS_ERROR_DEADLINE_EXCEEDED,
                   "%s: not done within %" G_GINT64_FORMAT " ms", what, self->timeout_ns / 1000000);
}

static void
set_nccl_error (TpsCommunicator *self, ncclResult_t code, const gchar *what, GError **error)
{
  const gchar *last = self->nccl->get_last_error (self->comm);

  g_set_error (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN, "%s: NCCL: %s%s%s%s", what,
               self->nccl->get_error_string (code), last != NULL && *last != '\0' ? " (" : "",
               last != NULL ? last : "", last != NULL && *last != '\0' ? ")" : "");
}

/* Returns the state of the communicator: ncclSuccess, ncclInProgress, or the error that broke
 * it. */
static ncclResult_t
get_state (TpsCommunicator *self)
{
  ncclResult_t state = ncclSuccess;
  ncclResult_t code = self->nccl->comm_get_async_error (self->comm, &state);

  return code != ncclSuccess ? code : state;
}

/* Checks `code`, the result of a call to NCCL, and waits while the call is in progress. `what`
 * names the operation in messages. Errors: as join(). */
static gboolean
communicator_settle (TpsCommunicator *self, ncclResult_t code, const gchar *what, GError **error)
{
  for (guint n_polls = 0; code == ncclInProgress; n_polls++)
    {
      if (!check_limits (self, what, error))
        return FALSE;
      pause_poll (n_polls);
      code = get_state (self);
    }
  if (code == ncclSuccess)
    return TRUE;
  set_nccl_error (self, code, what, error);
  return FALSE;
}

/* Waits until `event`, recorded after NCCL's work, is reached. Errors: as settle(). */
static gboolean
communicator_wait (TpsCommunicator *self, TpsEvent *event, const gchar *what, GError **error)
{
  for (guint n_polls = 0; !tps_cuda_event_query (event); n_polls++)
    {
      ncclResult_t state = get_state (self);

      if (state != ncclSuccess && state != ncclInProgress)
        {
          set_nccl_error (self, state, what, error);
          return FALSE;
        }
      if (!check_limits (self, what, error))
        return FALSE;
      pause_poll (n_polls);
    }
  return tps_cuda_event_sync (event, error);
}

static ncclResult_t
init_rank (TpsCommunicator *self, const ncclUniqueId *id)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

  config.blocking = 0;
  return self->nccl->comm_init_rank_config (&self->comm, (gint) self->size, *id, (gint) self->rank,
                                            &config);
}

/* NCCL takes its memory from the GPU, not from the pool, and reports a lack of memory as an error
 * of CUDA. If the call itself fails in this way, it is repeated once. A join that is in progress
 * cannot be repeated, because the other ranks have used the id. Unused memory is therefore returned
 * to the GPU before the first call. */
static ncclResult_t
create (TpsCommunicator *self, const ncclUniqueId *id)
{
  ncclResult_t code;

  tps_cuda_memory_trim (self->device);
  code = init_rank (self, id);
  if (code != ncclUnhandledCudaError)
    return code;
  tps_cuda_memory_trim (self->device);
  return init_rank (self, id);
}

/* Joins `size` ranks, which must all use the same id. Blocks. First returns unused memory of the
 * device's pool to the GPU, because NCCL does not allocate from the pool. Errors:
 * DEADLINE_EXCEEDED, ABORTED (cancelled), GROUP_BROKEN with NCCL's message, DEVICE_LOST; then only
 * abort() and clear() may be called. */
static gboolean
communicator_join (TpsCommunicator *self, const ncclUniqueId *id, GError **error)
{
  self->stream = tps_cuda_stream_new (&self->device->parent, error);
  return self->stream != NULL && communicator_settle (self, create (self, id), "joining", error);
}

/* Ends the work on this rank and on the other ranks. Afterwards the device does not access the
 * memory of callers any more. */
static void
communicator_abort (TpsCommunicator *self)
{
  if (self->comm == NULL)
    return;
  /* The abort is necessary even on a lost device, because it ends NCCL's connections. The other
   * ranks then learn of the failure at once instead of at their deadline. */
  tps_cuda_device_enter_lost (self->device);
  self->nccl->comm_abort (self->comm);
  self->comm = NULL;
  tps_cuda_stream_sync (self->stream, NULL);
}

/* Waits, until the deadline, until sent data have reached the other ranks; otherwise aborts. Then
 * releases everything. */
static void
communicator_clear (TpsCommunicator *self)
{
  if (self->comm != NULL && tps_cuda_device_enter (self->device, NULL)
      && communicator_settle (self, self->nccl->comm_finalize (self->comm), "farewell", NULL))
    {
      self->nccl->comm_destroy (self->comm);
      self->comm = NULL;
    }
  communicator_abort (self);
  g_clear_pointer (&self->stream, tps_cuda_stream_free);
}

/* -- staging -- */

/* Device memory for the data of a collective, and page-locked memory for moving data between it and
 * the host.
 *
 * Data are moved in segments: take a slot, copy a segment to the slot's device memory, process it
 * on the device, copy it out. There are two slots, so that the host can copy one segment while the
 * device processes the other. The output of the last slots is complete after drain(). All work is
 * queued on the communicator's stream.
 *
 * Errors: as communicator_wait(); RESOURCE_EXHAUSTED.
 */

#define TPS_STAGING_BYTES ((gsize) 4 << 20) /* of a slot */

typedef struct
{
  TpsBuffer *room; /* TPS_STAGING_BYTES of device memory */
  TpsBuffer *host; /* TPS_STAGING_BYTES of page-locked host memory */
  TpsEvent *event; /* after the last work on the slot */

  gpointer to; /* pageable memory for `n_bytes` of `host` after the event; NULL = none */
  gsize n_bytes;
} TpsStagingSlot;

typedef struct
{
  TpsCommunicator *communicator; /* borrowed */
  TpsStagingSlot slots[2];
  guint next;
} TpsStaging;

static TpsDevice *
device_of (TpsStaging *self)
{
  return &self->communicator->device->parent;
}

/* Allocates the members of a slot that it does not have yet. */
static gboolean
fill_slot (TpsStaging *self, TpsStagingSlot *slot, GError **error)
{
  if (slot->room == NULL)
    slot->room = tps_cuda_alloc (device_of (self), TPS_STAGING_BYTES, error);
  if (slot->room != NULL && slot->host == NULL)
    slot->host = tps_cuda_alloc_host (device_of (self), TPS_STAGING_BYTES, error);
  if (slot->host != NULL && slot->event == NULL)
    slot->event = tps_cuda_event_new (device_of (self), error);
  return slot->event != NULL;
}

/* Releases the memory. A TpsStaging that is zero except for `communicator` has no memory yet;
 * take() allocates it. */
static void
staging_clear (TpsStaging *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->slots); i++)
    {
      g_clear_pointer (&self->slots[i].room, tps_buffer_unref);
      g_clear_pointer (&self->slots[i].host, tps_buffer_unref);
      g_clear_pointer (&self->slots[i].event, tps_cuda_event_free);
    }
}

/* Waits for the last work on a slot, and copies its output to pageable memory. */
static gboolean
free_slot (TpsStaging *self, TpsStagingSlot *slot, GError **error)
{
  if (!communicator_wait (self->communicator, slot->event, "waiting", error))
    return FALSE;
  if (slot->to != NULL)
    memcpy (slot->to, tps_buffer_get_data (slot->host), slot->n_bytes);
  slot->to = NULL;
  return TRUE;
}

/* Waits until the next slot is free, and returns it. NULL with an error. */
static TpsStagingSlot *
staging_take (TpsStaging *self, GError **error)
{
  TpsStagingSlot *slot = &self->slots[self->next];

  if (!fill_slot (self, slot, error) || !free_slot (self, slot, error))
    return NULL;
  self->next = (self->next + 1) % G_N_ELEMENTS (self->slots);
  return slot;
}

/* Queues a copy of `n_bytes` to byte `offset` of the slot's device memory. `from` lies in
 * `place`. */
static void
staging_bring_in (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gconstpointer from,
                  TpsCudaPlace place, gsize n_bytes)
{
  if (place == TPS_CUDA_PLACE_PAGEABLE)
    {
      memcpy (tps_buffer_get_data (slot->host), from, n_bytes);
      from = tps_buffer_get_data (slot->host);
    }
  tps_cuda_ops.copy (self->communicator->stream, tps_buffer_get_data (slot->room) + offset, from,
                     n_bytes);
}

/* Queues a copy of `n_bytes` from byte `offset` of the slot's device memory to `to` in `place`, and
 * ends the use of the slot. */
static void
staging_bring_out (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gpointer to,
                   TpsCudaPlace place, gsize n_bytes)
{
  TpsStream *stream = self->communicator->stream;

  if (place == TPS_CUDA_PLACE_PAGEABLE)
    {
      slot->to = to;
      slot->n_bytes = n_bytes;
      to = tps_buffer_get_data (slot->host);
    }
  tps_cuda_ops.copy (stream, to, tps_buffer_get_data (slot->room) + offset, n_bytes);
  tps_cuda_event_record (slot->event, stream);
}

/* Waits for all work and completes the remaining copies. */
static gboolean
staging_drain (TpsStaging *self, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->slots); i++)
    if (self->slots[i].event != NULL && !free_slot (self, &self->slots[i], error))
      return FALSE;
  return TRUE;
}

/* -- nccl process group -- */

/* -- collectives -- */

/* The collectives of runtime/trainer/ports/process_group.h on a communicator. Each function returns
 * when the collective is done. Data may lie in device memory or in host memory; data in host memory
 * are staged.
 *
 * NCCL chooses the order in which it adds floats. Averages of half floats have the same bits as the
 * averages of the averaging server. The elements of all ranks are gathered, segment by segment, and
 * added in rank order by the device's operations.
 *
 * Errors: as communicator_settle(); RESOURCE_EXHAUSTED. The communicator must not be used after
 * an error. */

typedef struct
{
  TpsCommunicator *communicator; /* borrowed */
  TpsStaging staging;
  TpsBuffer *sum; /* of one segment of half floats, as FLOAT32; allocated on demand */
} TpsCollectives;

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
         && communicator_settle (c,
                                 c->nccl->all_reduce (data, data, n_elems, ncclFloat32, ncclSum,
                                                      c->comm, handle_of (self)),
                                 "all-reduce", error);
}

/* Sums data in device memory. Uses the event of a slot, but not its buffer. */
static gboolean
reduce_on_device (TpsCollectives *self, gfloat *data, gsize n_elems, GError **error)
{
  TpsStagingSlot *slot = staging_take (&self->staging, error);

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
      TpsStagingSlot *slot = staging_take (&self->staging, error);

      if (slot == NULL)
        return FALSE;
      staging_bring_in (&self->staging, slot, 0, data + start, place, n * sizeof *data);
      if (!reduce_in_place (self, tps_buffer_get_data (slot->room), n, error))
        return FALSE;
      staging_bring_out (&self->staging, slot, 0, data + start, place, n * sizeof *data);
    }
  return TRUE;
}

/* -- exchange of one number per rank -- */

/* Gathers the number `mine` of each rank in `all` [size]. */
static gboolean
exchange_numbers (TpsCollectives *self, guint64 mine, guint64 *all, GError **error)
{
  TpsCommunicator *c = self->communicator;
  TpsStagingSlot *slot = staging_take (&self->staging, error);
  gsize own = c->rank * sizeof mine;
  guint8 *room;

  if (slot == NULL)
    return FALSE;
  room = tps_buffer_get_data (slot->room);
  staging_bring_in (&self->staging, slot, own, &mine, TPS_CUDA_PLACE_PAGEABLE, sizeof mine);
  if (!enter (self, error)
      || !communicator_settle (
          c, c->nccl->all_gather (room + own, room, 1, ncclUint64, c->comm, handle_of (self)),
          "all-gather of sizes", error))
    return FALSE;
  staging_bring_out (&self->staging, slot, 0, all, TPS_CUDA_PLACE_PAGEABLE, c->size * sizeof mine);
  return staging_drain (&self->staging, error);
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
        return tps_fail (error, TPS_ERROR_GROUP_BROKEN, "rank %u sent an invalid weight", p);
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
  TpsStagingSlot *slot = staging_take (&self->staging, error);
  gsize n_bytes = n_elems * averaging->elem_size, own = c->rank * n_bytes;
  guint8 *room;

  if (slot == NULL)
    return FALSE;
  room = tps_buffer_get_data (slot->room);
  if (averaging->weights[c->rank] != 0)
    staging_bring_in (&self->staging, slot, own, data, place, n_bytes);
  else
    tps_cuda_ops.zero (c->stream, room + own, n_bytes);
  if (!enter (self, error)
      || !communicator_settle (
          c, c->nccl->all_gather (room + own, room, n_bytes, ncclUint8, c->comm, handle_of (self)),
          "all-gather of half floats", error))
    return FALSE;
  queue_average (self, averaging, room, room + own, n_elems);
  staging_bring_out (&self->staging, slot, own, data, place, n_bytes);
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
  return staging_drain (&self->staging, error);
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
        return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "rank %u announces too many bytes",
                         p);
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
      TpsStagingSlot *slot = staging_take (&self->staging, error);
      gpointer room;

      if (slot == NULL)
        return FALSE;
      room = tps_buffer_get_data (slot->room);
      if (root == c->rank)
        staging_bring_in (&self->staging, slot, 0, (const guint8 *) data + start, place, n);
      if (!enter (self, error)
          || !communicator_settle (
              c,
              c->nccl->broadcast (room, room, n, ncclUint8, (gint) root, c->comm, handle_of (self)),
              "broadcast", error))
        return FALSE;
      staging_bring_out (&self->staging, slot, 0, to + start, TPS_CUDA_PLACE_PAGEABLE, n);
    }
  return TRUE;
}

static gboolean
gather (TpsCollectives *self, gconstpointer data, const gsize *counts, guint8 *to, GError **error)
{
  for (guint p = 0; p < self->communicator->size; to += counts[p], p++)
    if (!broadcast (self, p, data, counts[p], to, error))
      return FALSE;
  return staging_drain (&self->staging, error);
}

/* -- nccl process group -- */

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

/* Sums the data of all ranks in place. */
static gboolean
run_all_reduce (NcclGroup *group, Job *job, GError **error)
{
  TpsCollectives *self = &group->collectives;
  TpsCudaPlace place = tps_cuda_place_of (job->data);

  if (job->n_elems == 0)
    return TRUE;
  /* The host reads pageable memory, so it must wait for `ready`. All other memory is read by the
   * device. */
  if (job->ready != NULL && place == TPS_CUDA_PLACE_PAGEABLE
      && !communicator_wait (self->communicator, job->ready, "waiting for the data", error))
    return FALSE;
  if (job->ready != NULL && place != TPS_CUDA_PLACE_PAGEABLE)
    tps_cuda_stream_wait_event (self->communicator->stream, job->ready);
  if (place == TPS_CUDA_PLACE_DEVICE)
    return reduce_on_device (self, job->data, job->n_elems, error)
           && staging_drain (&self->staging, error);
  return reduce_staged (self, place, job->data, job->n_elems, error)
         && staging_drain (&self->staging, error);
}

/* Averages the data of all ranks: see TpsAverage. */
static gboolean
run_average (NcclGroup *group, Job *job, GError **error)
{
  TpsCollectives *self = &group->collectives;
  TpsAverage *average = job->average;
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

/* Gathers the bytes of each rank in host memory, in rank order; the ranks may have different
 * numbers of bytes. */
static gboolean
run_all_gather (NcclGroup *group, Job *job, GError **error)
{
  TpsCollectives *self = &group->collectives;
  g_autoptr (TpsBuffer) all = NULL;
  gsize n_all;

  if (!exchange_counts (self, job->n_bytes, job->counts, &n_all, error))
    return FALSE;
  all = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_all, NULL);
  if (all == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for %" G_GSIZE_FORMAT " bytes",
                     n_all);
  if (!gather (self, job->sent, job->counts, tps_buffer_get_data (all), error))
    return FALSE;
  *job->gathered = g_steal_pointer (&all);
  return TRUE;
}

/* -- the group's thread -- */

/* Returns the reason why the group is broken, owned by the caller; NULL while it works. */
static gchar *
dup_broken (NcclGroup *self)
{
  TPS_LOCK_SCOPE (&self->lock);
  return g_strdup (self->broken);
}

static gboolean
is_aborted_func (gpointer user_data)
{
  NcclGroup *self = user_data;

  TPS_LOCK_SCOPE (&self->lock);
  return self->is_aborted;
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
    {
      tps_mutex_lock (&self->lock);
      if (self->broken == NULL)
        self->broken = g_strdup_printf ("%s on rank %u of %u: %s", job->name, self->base.rank,
                                        self->base.size, failure->message);
      tps_mutex_unlock (&self->lock);
      communicator_abort (&self->communicator);
      /* The destinations of pending output will not be written to. */
      for (guint i = 0; i < G_N_ELEMENTS (self->collectives.staging.slots); i++)
        self->collectives.staging.slots[i].to = NULL;
    }
  end_job (self, job);
}

/* Waits for a job and returns it. Returns NULL if the group is stopping and its queue is empty. */
static Job *
take_job (NcclGroup *self)
{
  TPS_LOCK_SCOPE (&self->lock);
  while (!self->is_stopping && g_queue_is_empty (&self->jobs))
    tps_cond_wait (&self->changed, &self->lock);
  return g_queue_pop_head (&self->jobs);
}

static void *
run_group (void *user_data)
{
  NcclGroup *self = user_data;
  Job *job;

  while ((job = take_job (self)) != NULL)
    run_job (self, job);
  set_deadline (self, MIN (self->timeout_ns, FAREWELL_LIMIT_NS));
  staging_clear (&self->collectives.staging);
  g_clear_pointer (&self->collectives.sum, tps_buffer_unref);
  communicator_clear (&self->communicator);
  return NULL;
}

/* -- the table of functions -- */

static void
enqueue (TpsProcessGroup *group, const Job *job)
{
  NcclGroup *self = (NcclGroup *) group;

  TPS_LOCK_SCOPE (&self->lock);
  g_queue_push_tail (&self->jobs, g_memdup2 (job, sizeof *job));
  tps_cond_signal (&self->changed);
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

  TPS_LOCK_SCOPE (&self->lock);
  self->is_aborted = TRUE;
  if (self->broken == NULL)
    self->broken = g_strdup ("the process group was closed by this rank");
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
  return tps_fail_null (error, TPS_ERROR_GROUP_BROKEN, "process group: unique id: NCCL: %s (%s)",
                        nccl->get_error_string (code), nccl->get_last_error (NULL));
}

static gboolean
read_unique_id (GBytes *value, ncclUniqueId *id, GError **error)
{
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (value, &n_bytes);

  if (n_bytes != sizeof *id)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "process group: rank 0 stored %" G_GSIZE_FORMAT
                     " bytes, expected an id of %" G_GSIZE_FORMAT "; do all ranks use nccl?",
                     n_bytes, sizeof *id);
  memcpy (id, data, n_bytes);
  return TRUE;
}

/* Announces this rank, and waits for the keys of all ranks. Sets `id`. */
static gboolean
meet (NcclGroup *self, const TpsProcessGroupOptions *options, ncclUniqueId *id, GError **error)
{
  g_autofree gchar *own_key = g_strdup_printf (KEY_PREFIX "%u", options->rank);
  g_autoptr (GBytes) own = options->rank == 0 ? make_unique_id (self->communicator.nccl, error)
                                              : g_bytes_new (NULL, 0);

  if (own == NULL || !tps_join_put (options, own_key, own, error))
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
  if (!communicator_join (&self->communicator, &id, error))
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
  self->collectives = (TpsCollectives) { .communicator = &self->communicator,
                                         .staging = { .communicator = &self->communicator } };
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
      communicator_abort (&self->communicator);
      communicator_clear (&self->communicator);
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
