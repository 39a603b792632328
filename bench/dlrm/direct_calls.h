/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Direct calls to the tables: the lookup of the pooled vectors of a batch, and the push of their
 * gradients, both with all ids of the bags. The single process uses them, and trainers with
 * --plain. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "runtime/trainer/table_steps/table_call.h"

G_BEGIN_DECLS

/* The calls and their memory. */
typedef struct
{
  TpsClickShape shape;
  gsize dim;
  gint64 *offsets[TPS_CLICK_TABLES]; /* [max_samples] */ /* i * bag_length */
  gfloat *gradients;                                     /* of all pooled vectors, table by table */
  TpsTableCall lookup, push;
} TpsDlrmDirect;

/* Initialises the calls in the caller's storage. `client` is borrowed. `max_samples` is the size of
 * the largest batch. */
void tps_dlrm_direct_init (TpsDlrmDirect *direct, TpsTableClient *client,
                           const TpsClickShape *shape, gsize dim, gsize max_samples);
void tps_dlrm_direct_clear (TpsDlrmDirect *direct);

/* Looks up the pooled vectors of a batch, and writes them to vectors 1 to 26 of `features`
 * [n_samples, 27, dim]. Blocks. Errors: those of the client. */
gboolean tps_dlrm_direct_look_up (TpsDlrmDirect *direct, const TpsClickBatch *batch,
                                  gfloat *features, GError **error);

/* Starts the push of `feature_gradient` [n_samples of the batch, 27, dim], restricted to the
 * `n_samples` samples from number `first` on. The previous push must have ended. `batch` is
 * borrowed until the push has ended. */
void tps_dlrm_direct_push (TpsDlrmDirect *direct, const TpsClickBatch *batch, gsize first,
                           gsize n_samples, const gfloat *feature_gradient);

/* Waits until the push has ended. Returns TRUE at once if there is no push. Errors: those of the
 * client. */
gboolean tps_dlrm_direct_wait_for_push (TpsDlrmDirect *direct, GError **error);

G_END_DECLS
