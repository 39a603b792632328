/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Room on the device for a collective's data, and page-locked memory by which data of the host gets
 * there and back.
 *
 * Data goes through in segments: take a slot, bring a segment in, let the device work on the slot's
 * room, bring it out; two slots take turns, so that the host copies one while the device works on
 * the other. What was brought out of the last slots is there after drain(). Everything is queued on
 * the communicator's stream.
 *
 * Errors: what the communicator's wait() has; RESOURCE_EXHAUSTED.
 */

#pragma once

#include "cuda/device/place.h"
#include "cuda/group/communicator.h"

G_BEGIN_DECLS

#define TPS_STAGING_BYTES ((gsize) 4 << 20) /* of a slot */

typedef struct
{
  TpsBuffer *room; /* TPS_STAGING_BYTES of the device's memory */
  TpsBuffer *host; /* the same, page-locked */
  TpsEvent *event; /* behind the last work with it */

  gpointer
      to; /* pageable: where `n_bytes` of `host` go once the event is reached; NULL = nowhere */
  gsize n_bytes;
} TpsStagingSlot;

typedef struct
{
  TpsCommunicator *communicator; /* borrowed */
  TpsStagingSlot slots[2];
  guint next;
} TpsStaging;

/* All zero but `communicator` is a staging without memory, which take() sees to. */
void tps_staging_clear (TpsStaging *self);

/* The next slot, when it is free. NULL with an error. */
TpsStagingSlot *tps_staging_take (TpsStaging *self, GError **error);

/* Queues copying into the slot's room, at `offset`. `from` lies in `place`. */
void tps_staging_bring_in (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gconstpointer from,
                           TpsCudaPlace place, gsize n_bytes);
/* Queues copying out of the room, and ends the slot's turn. */
void tps_staging_bring_out (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gpointer to,
                            TpsCudaPlace place, gsize n_bytes);

/* Waits for everything, and copies what is left. */
gboolean tps_staging_drain (TpsStaging *self, GError **error);

/* Forgets what was to be brought out: nothing is written to it from now on. */
void tps_staging_drop (TpsStaging *self);

G_END_DECLS
