/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The embedding tables of a trainer, by runtime/trainer/table_steps or by direct calls. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "bench/dlrm/direct_calls.h"
#include "bench/dlrm/options.h"
#include "runtime/trainer/table_steps/table_steps.h"

G_BEGIN_DECLS

/* The tables of one trainer. */
typedef struct
{
  TpsClickShape shape;
  gsize dim;
  TpsTableSteps *steps; /* NULL = direct calls */
  TpsDlrmDirect direct;
  gint64 *offsets[TPS_CLICK_TABLES]; /* [max_samples] */
  const TpsClickBatch *prefetched;   /* the batch whose lookup has been started; NULL = none */
} TpsDlrmEmbeddings;

/* Initialises the embeddings in the caller's storage. `client` is borrowed. Errors:
 * INVALID_ARGUMENT. */
gboolean tps_dlrm_embeddings_init (TpsDlrmEmbeddings *embeddings, TpsTableClient *client,
                                   const TpsDlrmOptions *options, gsize max_samples,
                                   gboolean is_direct, GError **error);
/* Cancels calls in flight and frees the contents. A second call has no effect. */
void tps_dlrm_embeddings_clear (TpsDlrmEmbeddings *embeddings);

/* Starts the lookup of a batch, unless it has been started. Direct calls do nothing here. `batch`
 * is borrowed until the push of its gradients has ended. Errors: those of
 * tps_table_steps_prefetch(). */
gboolean tps_dlrm_embeddings_prefetch (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                                       GError **error);

/* Writes the pooled vectors of a batch to vectors 1 to 26 of `features` [n_samples, 27, dim]. The
 * batch must have been prefetched. Blocks. Errors: those of the client. */
gboolean tps_dlrm_embeddings_take (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                                   gfloat *features, GError **error);

/* Starts the push of `gradient` [n_samples, 27, dim] for the features of the last
 * tps_dlrm_embeddings_take(). Direct calls push `n_parts` parts of the batch one after another,
 * and only the last push overlaps the caller. Errors: those of the client. */
gboolean tps_dlrm_embeddings_push (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                                   gsize n_parts, gfloat *gradient, GError **error);

/* tps_dlrm_embeddings_wait() waits until the pushes in flight are within the bound of staleness;
 * tps_dlrm_embeddings_settle() waits until no push is in flight. Errors: those of the client. */
gboolean tps_dlrm_embeddings_wait (TpsDlrmEmbeddings *embeddings, GError **error);
gboolean tps_dlrm_embeddings_settle (TpsDlrmEmbeddings *embeddings, GError **error);

G_END_DECLS
