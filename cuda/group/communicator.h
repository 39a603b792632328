/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A communicator of NCCL that never blocks for good, and the stream that its work goes to.
 *
 * NCCL is asked not to block: a call may answer "in progress", and nothing else may be asked of the
 * communicator until that is over, which settle() waits for. Work is done when an event behind it
 * is reached, which wait() waits for. Both give up when the deadline has passed, when it is
 * cancelled, or when NCCL says that a peer or the network is lost; then only abort() is left, which
 * ends what runs on the device too.
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
  ncclComm_t comm; /* NULL before it has joined, and once it is gone */
  TpsCudaDevice *device;
  TpsStream *stream; /* owned */
  guint rank, size;

  /* Of the step that runs; set by the owner. */
  gint64 deadline_ns; /* monotonic */
  gint64 timeout_ns;  /* what the deadline came from, for messages */
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsCommunicator;

/* Joins `size` ranks; all call it with the same id. Blocks. Errors: DEADLINE_EXCEEDED, ABORTED
 * (cancelled), GROUP_BROKEN with NCCL's words, DEVICE_LOST; then all that is left to do is
 * clear(). */
gboolean tps_communicator_join (TpsCommunicator *self, const ncclUniqueId *id, GError **error);

/* What a call of NCCL returned: waits while it is in progress. FALSE: as join(); `what` was done
 * begins the message. */
gboolean tps_communicator_settle (TpsCommunicator *self, ncclResult_t code, const gchar *what,
                                  GError **error);

/* Waits until `event`, recorded behind NCCL's work, is reached. FALSE: as settle(). */
gboolean tps_communicator_wait (TpsCommunicator *self, TpsEvent *event, const gchar *what,
                                GError **error);

/* Ends what runs, here and at the other ranks; afterwards nothing of the device touches what it was
 * given. */
void tps_communicator_abort (TpsCommunicator *self);

/* Lets what was sent reach the other ranks, before the deadline, or aborts; gives everything
 * back. */
void tps_communicator_clear (TpsCommunicator *self);

G_END_DECLS
