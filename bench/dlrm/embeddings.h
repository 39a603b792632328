/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The embedding tables as a trainer uses them: by runtime/trainer/table_steps or by direct
 * calls. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "bench/dlrm/direct_calls.h"
#include "bench/dlrm/options.h"
#include "runtime/trainer/table_steps/table_steps.h"

G_BEGIN_DECLS

typedef struct
{
  TpsClickShape shape;
  gsize dim;
  TpsTableSteps *steps; /* NULL = direct calls */
  TpsDlrmDirect direct;
  gint64 *offsets[TPS_CLICK_TABLES]; /* [max_samples] */
  const TpsClickBatch *prefetched;
} TpsDlrmEmbeddings;

/* Initialises the embeddings in the caller's storage; `client` is borrowed. Errors:
 * INVALID_ARGUMENT. */
gboolean tps_dlrm_embeddings_init (TpsDlrmEmbeddings *embeddings, TpsTableClient *client,
                                   const TpsDlrmOptions *options, gsize max_samples,
                                   gboolean is_direct, GError **error);
/* Cancels calls in flight. May be called again. */
void tps_dlrm_embeddings_clear (TpsDlrmEmbeddings *embeddings);

/* Starts the lookup of a batch, unless it has been started. With direct calls, it does nothing.
 * `batch` stays borrowed until the push of its gradients has ended. */
gboolean tps_dlrm_embeddings_prefetch (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                                       GError **error);

/* Writes the pooled vectors of a batch, which must have been prefetched, to vectors 1 to 26 of
 * `features` [n_samples, 27, dim]. Blocks. Errors: those of the client. */
gboolean tps_dlrm_embeddings_take (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                                   gfloat *features, GError **error);

/* Starts the push of the gradients [n_samples, 27, dim] of the features that were taken last. With
 * direct calls, `n_parts` parts of the batch are pushed one after the other; only the last push
 * overlaps the caller. */
gboolean tps_dlrm_embeddings_push (TpsDlrmEmbeddings *embeddings, const TpsClickBatch *batch,
                                   gsize n_parts, gfloat *gradient, GError **error);

/* Waits until pushes in flight are within the bound of staleness; or until none is in flight. */
gboolean tps_dlrm_embeddings_wait (TpsDlrmEmbeddings *embeddings, GError **error);
gboolean tps_dlrm_embeddings_settle (TpsDlrmEmbeddings *embeddings, GError **error);

G_END_DECLS
