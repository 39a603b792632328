/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The collectives of runtime/trainer/ports/process_group.h on a communicator. Each function returns
 * when the collective is done. Data may lie in device memory or in host memory; data in host memory
 * are staged.
 *
 * NCCL chooses the order in which it adds floats. Averages of half floats have the same bits as the
 * averages of the averaging server. The elements of all ranks are gathered, segment by segment, and
 * added in rank order by the device's operations.
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
  TpsBuffer *sum; /* of one segment of half floats, as FLOAT32; allocated on demand */
} TpsCollectives;

/* Makes an object without memory in the caller's storage, and releases its memory. */
void tps_collectives_init (TpsCollectives *self, TpsCommunicator *communicator);
void tps_collectives_clear (TpsCollectives *self);
/* Discards pending output, so that callers' memory is not written to any more. Must be called after
 * a failure, once the communicator has been aborted. */
void tps_collectives_drop (TpsCollectives *self);

/* Sums the data of all ranks in place. The data are complete when `ready` is reached; NULL = they
 * are complete already. */
gboolean tps_collectives_all_reduce_f32 (TpsCollectives *self, TpsEvent *ready, gfloat *data,
                                         gsize n_elems, GError **error);
/* Averages the data of all ranks: see TpsAverage. */
gboolean tps_collectives_average (TpsCollectives *self, TpsAverage *average, GError **error);
/* Gathers `n_bytes` of each rank, in rank order; the ranks may have different numbers of bytes.
 * Sets `counts`, [size], to these numbers. `gathered` lies in host memory and is owned by the
 * caller; it is not set after an error. */
gboolean tps_collectives_all_gather_bytes (TpsCollectives *self, gconstpointer data, gsize n_bytes,
                                           gsize *counts, TpsBuffer **gathered, GError **error);

G_END_DECLS
