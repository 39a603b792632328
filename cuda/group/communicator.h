/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

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

#pragma once

#include "cuda/device/device.h"
#include "cuda/group/nccl.h"

G_BEGIN_DECLS

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

/* Joins `size` ranks, which must all use the same id. Blocks. First returns unused memory of the
 * device's pool to the GPU, because NCCL does not allocate from the pool. Errors:
 * DEADLINE_EXCEEDED, ABORTED (cancelled), GROUP_BROKEN with NCCL's message, DEVICE_LOST; then only
 * abort() and clear() may be called. */
gboolean tps_communicator_join (TpsCommunicator *self, const ncclUniqueId *id, GError **error);

/* Checks `code`, the result of a call to NCCL, and waits while the call is in progress. `what`
 * names the operation in messages. Errors: as join(). */
gboolean tps_communicator_settle (TpsCommunicator *self, ncclResult_t code, const gchar *what,
                                  GError **error);

/* Waits until `event`, recorded after NCCL's work, is reached. Errors: as settle(). */
gboolean tps_communicator_wait (TpsCommunicator *self, TpsEvent *event, const gchar *what,
                                GError **error);

/* Ends the work on this rank and on the other ranks. Afterwards the device does not access the
 * memory of callers any more. */
void tps_communicator_abort (TpsCommunicator *self);

/* Waits, until the deadline, until sent data have reached the other ranks; otherwise aborts. Then
 * releases everything. */
void tps_communicator_clear (TpsCommunicator *self);

G_END_DECLS
