/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The collectives of runtime/trainer/ports/process_group.h on a communicator. Each function returns
 * when the collective is done. Data may lie in device memory, or in host memory, from which they
 * are staged.
 *
 * NCCL adds sums of floats in an order of its own. Averages of half floats have the bits of the
 * averaging server: the elements of all ranks are gathered, segment by segment, and added in rank
 * order by the device's operations.
 *
 * Errors: as tps_communicator_settle(); RESOURCE_EXHAUSTED. The communicator must not be used after
 * an error. */

#pragma once

#include "cuda/group/staging.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

typedef struct
{
  TpsCommunicator *communicator; /* borrowed */
  TpsStaging staging;
  TpsBuffer *sum; /* of a segment of half floats; allocated on demand */
} TpsCollectives;

void tps_collectives_init (TpsCollectives *self, TpsCommunicator *communicator);
void tps_collectives_clear (TpsCollectives *self);
/* Must be called after a failure, when the communicator has been aborted: callers' memory is not
 * written to any more. */
void tps_collectives_drop (TpsCollectives *self);

/* Sums in place. The data are complete when `ready` is reached; NULL = they are complete. */
gboolean tps_collectives_all_reduce_f32 (TpsCollectives *self, TpsEvent *ready, gfloat *data,
                                         gsize n_elems, GError **error);
gboolean tps_collectives_average (TpsCollectives *self, TpsAverage *average, GError **error);
/* `gathered` lies in host memory and is owned by the caller; NULL after an error. */
gboolean tps_collectives_all_gather_bytes (TpsCollectives *self, gconstpointer data, gsize n_bytes,
                                           gsize *counts, TpsBuffer **gathered, GError **error);

G_END_DECLS
