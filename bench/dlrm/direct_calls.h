/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Direct calls to the tables: pooled vectors of a batch, and the push of their gradients, with all
 * ids of the bags. The single process uses them, and trainers with --plain. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "runtime/trainer/table_steps/table_call.h"

G_BEGIN_DECLS

typedef struct
{
  TpsClickShape shape;
  gsize dim;
  gint64 *offsets[TPS_CLICK_TABLES]; /* [max_samples] */
  gfloat *gradients;                 /* of all pooled vectors, table by table */
  TpsTableCall lookup, push;
} TpsDlrmDirect;

/* Initialises the embeddings in the caller's storage; `client` is borrowed. `max_samples` is the
 * size of the largest batch. */
void tps_dlrm_direct_init (TpsDlrmDirect *direct, TpsTableClient *client,
                           const TpsClickShape *shape, gsize dim, gsize max_samples);
void tps_dlrm_direct_clear (TpsDlrmDirect *direct);

/* Looks up the pooled vectors of a batch and writes them to vectors 1 to 26 of `features`
 * [n_samples, 27, dim]. Blocks. Errors: those of the client. */
gboolean tps_dlrm_direct_look_up (TpsDlrmDirect *direct, const TpsClickBatch *batch,
                                  gfloat *features, GError **error);

/* Starts the push of the gradients [n_samples, 27, dim] of such features for `n_samples` samples
 * from `first` on. No other push may be in flight. `batch` stays borrowed until the push has
 * ended. */
void tps_dlrm_direct_push (TpsDlrmDirect *direct, const TpsClickBatch *batch, gsize first,
                           gsize n_samples, const gfloat *feature_gradient);

/* Waits until the push has ended; TRUE at once without a push. Errors: those of the client. */
gboolean tps_dlrm_direct_wait_for_push (TpsDlrmDirect *direct, GError **error);

G_END_DECLS
