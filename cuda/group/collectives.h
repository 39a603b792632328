/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The collectives of runtime/trainer/ports/process_group.h on a communicator, each until it is
 * done. Data may lie in the device's memory, or in the host's, from where it is staged.
 *
 * Sums of floats are added by NCCL, in an order of its own. Averages of half floats have the
 * averaging server's bits: all ranks' elements are gathered, segment by segment, and added in rank
 * order by the device's own operations.
 *
 * Errors: as tps_communicator_settle(); RESOURCE_EXHAUSTED. The communicator is of no use
 * afterwards. */

#pragma once

#include "cuda/group/staging.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

typedef struct
{
  TpsCommunicator *communicator; /* borrowed */
  TpsStaging staging;
  TpsBuffer *sum; /* of a segment of half floats; NULL until it is wanted */
} TpsCollectives;

void tps_collectives_init (TpsCollectives *self, TpsCommunicator *communicator);
void tps_collectives_clear (TpsCollectives *self);
/* After a failure, and once the communicator is aborted: nothing more is written to what callers
 * gave. */
void tps_collectives_drop (TpsCollectives *self);

/* `ready`: data is as it should be once it is reached; NULL = now. */
gboolean tps_collectives_all_reduce_f32 (TpsCollectives *self, TpsEvent *ready, gfloat *data,
                                         gsize n_elems, GError **error);
gboolean tps_collectives_average (TpsCollectives *self, TpsAverage *average, GError **error);
/* *gathered lies in host memory; NULL when it failed. */
gboolean tps_collectives_all_gather_bytes (TpsCollectives *self, gconstpointer data, gsize n_bytes,
                                           gsize *counts, TpsBuffer **gathered, GError **error);

G_END_DECLS
