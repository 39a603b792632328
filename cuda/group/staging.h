/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Device memory for the data of a collective, and page-locked memory for moving data between it and
 * the host.
 *
 * Data are moved in segments: take a slot, copy a segment to the slot's device memory, process it
 * on the device, copy it out. There are two slots, so that the host can copy one segment while the
 * device processes the other. The output of the last slots is complete after drain(). All work is
 * queued on the communicator's stream.
 *
 * Errors: as tps_communicator_wait(); RESOURCE_EXHAUSTED.
 */

#pragma once

#include "cuda/device/place.h"
#include "cuda/group/communicator.h"

G_BEGIN_DECLS

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

/* Releases the memory. A TpsStaging that is zero except for `communicator` has no memory yet;
 * take() allocates it. */
void tps_staging_clear (TpsStaging *self);

/* Waits until the next slot is free, and returns it. NULL with an error. */
TpsStagingSlot *tps_staging_take (TpsStaging *self, GError **error);

/* Queues a copy of `n_bytes` to byte `offset` of the slot's device memory. `from` lies in
 * `place`. */
void tps_staging_bring_in (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gconstpointer from,
                           TpsCudaPlace place, gsize n_bytes);
/* Queues a copy of `n_bytes` from byte `offset` of the slot's device memory to `to` in `place`, and
 * ends the use of the slot. */
void tps_staging_bring_out (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gpointer to,
                            TpsCudaPlace place, gsize n_bytes);

/* Waits for all work and completes the remaining copies. */
gboolean tps_staging_drain (TpsStaging *self, GError **error);

/* Discards pending output: its destinations will not be written to. */
void tps_staging_drop (TpsStaging *self);

G_END_DECLS
