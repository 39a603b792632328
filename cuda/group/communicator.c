/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/group/communicator.h"

#include <sched.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

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

gboolean
tps_communicator_settle (TpsCommunicator *self, ncclResult_t code, const gchar *what,
                         GError **error)
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

gboolean
tps_communicator_wait (TpsCommunicator *self, TpsEvent *event, const gchar *what, GError **error)
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

gboolean
tps_communicator_join (TpsCommunicator *self, const ncclUniqueId *id, GError **error)
{
  self->stream = tps_cuda_stream_new (&self->device->parent, error);
  return self->stream != NULL
         && tps_communicator_settle (self, create (self, id), "joining", error);
}

void
tps_communicator_abort (TpsCommunicator *self)
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

void
tps_communicator_clear (TpsCommunicator *self)
{
  if (self->comm != NULL && tps_cuda_device_enter (self->device, NULL)
      && tps_communicator_settle (self, self->nccl->comm_finalize (self->comm), "farewell", NULL))
    {
      self->nccl->comm_destroy (self->comm);
      self->comm = NULL;
    }
  tps_communicator_abort (self);
  g_clear_pointer (&self->stream, tps_cuda_stream_free);
}
