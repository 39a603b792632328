/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model with its optimizer: the arithmetic of an update, which makes a new version and does not
 * change the old ones.
 *
 * Bits: for each element, the float sum of the gradients in the order given, one division by their
 * number, then the optimizer's formula. The distribution of blocks among threads makes no
 * difference.
 *
 * Thread: one update at a time; its blocks on any threads. References: any.
 */

#pragma once

#include "runtime/tensor/optimizer.h"
#include "runtime/server/push_window.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

/* The size of a block, whose gradients stay in any first-level cache. It is a constant because
 * snapshots hold the optimizer's state by blocks. */
#define TPS_TRAINED_MODEL_BLOCK_BYTES 8192
/* Each push and each update has lists with an element for each parameter. */
#define TPS_TRAINED_MODEL_MAX_PARAMETERS 65536

typedef struct TpsTrainedModel TpsTrainedModel;

/* Copies `parameters` into version 1. `optimizer` need not be resolved. Versions, the optimizer's
 * state and scratch memory come from `buffers`, of which a reference is taken. Errors:
 * INVALID_ARGUMENT (no or too many parameters, a repeated name, elements that are not FLOAT32, an
 * invalid optimizer), RESOURCE_EXHAUSTED. */
TpsTrainedModel *tps_trained_model_new (const TpsNamedTensor *parameters, guint n_parameters,
                                        const TpsOptimizerSpec *optimizer, TpsBufferPool *buffers,
                                        GError **error);
/* Sets the pool for later versions whose gradients came through shared memory. A reference is
 * taken; NULL = they come from `buffers`, as all other versions do. */
void tps_trained_model_set_shared_versions (TpsTrainedModel *model, TpsBufferPool *versions);
TpsTrainedModel *tps_trained_model_ref (TpsTrainedModel *model);
void tps_trained_model_unref (TpsTrainedModel *model);

/* Whether the model began with these parameters: TRUE for identical bytes and an equal
 * optimizer. */
gboolean tps_trained_model_began_as (const TpsTrainedModel *model, const TpsTrainedModel *other);

/* Borrowed until the next update ends. */
TpsModelVersion *tps_trained_model_get_newest (const TpsTrainedModel *model);

/* The bytes of the parameters of one version. */
gsize tps_trained_model_get_n_bytes (const TpsTrainedModel *model);

/* The digest of the initial parameters, which began_as() compares. */
const TpsPushDigest *tps_trained_model_get_beginning (const TpsTrainedModel *model);

/* The optimizer's state: FLOAT32 [n_floats], by blocks of the parameters (trained_model.c);
 * borrowed, and changed by updates. */
gfloat *tps_trained_model_get_state (const TpsTrainedModel *model, gsize *n_floats);

/* A reference to the present state, which will not change: the next update works on a copy, in
 * `spare`. `spare` must be as large as the state; ownership moves. No update may be in progress. */
TpsBuffer *tps_trained_model_share_state (TpsTrainedModel *model, TpsBuffer *spare);
/* Frees the spare unless an update has taken it. No update may be in progress. */
void tps_trained_model_drop_spare (TpsTrainedModel *model);

/* A model that continues from `newest`, of which a reference is taken. The state is 0; the caller
 * must fill it. `optimizer` is resolved. Errors: as tps_trained_model_new(). */
TpsTrainedModel *tps_trained_model_new_restored (TpsModelVersion *newest,
                                                 const TpsOptimizerSpec *optimizer,
                                                 const TpsPushDigest *beginning,
                                                 TpsBufferPool *buffers, GError **error);

/* Resolved; borrowed. */
const TpsOptimizerSpec *tps_trained_model_get_optimizer (const TpsTrainedModel *model);

/* The number of blocks of an update, at least 1. */
guint tps_trained_model_get_n_blocks (const TpsTrainedModel *model);

/* Memory for the means of long rows. */
typedef struct TpsModelScratch TpsModelScratch;

/* An update in progress. If the digests of gradients are needed, their blocks are hashed in the
 * same visit. */
typedef struct
{
  TpsTrainedModel *model;
  const TpsTensor *const *gradients; /* [n_gradients][parameters], borrowed */
  guint n_gradients;
  /* [n_gradients]: NULL, or of all blocks, see tps_update_digest_combine(). */
  TpsPushDigest **hashes;
  TpsModelVersion *version; /* the new one */
  TpsBuffer *state;         /* the new one; NULL: the state is changed where it is */
  guint n_blocks;           /* >= 1 */
  TpsModelScratch *scratch; /* NULL = the update needs none */
} TpsModelUpdate;

/* At most `n_threads`, up to TPS_MODEL_MAX_THREADS, may run blocks at the same time. Errors:
 * RESOURCE_EXHAUSTED; the model is unchanged then, and end() must not be called. */
#define TPS_MODEL_MAX_THREADS 32
gboolean tps_model_update_begin (TpsModelUpdate *update, TpsTrainedModel *model,
                                 const TpsTensor *const *gradients, guint n_gradients,
                                 guint n_threads, GError **error);
/* The blocks of `gradients[i]` will be hashed. Must be called before the first block is run. */
void tps_model_update_want_hashes (TpsModelUpdate *update, guint i);
/* Must be called once for each block. */
void tps_model_update_run (TpsModelUpdate *update, guint first_block, guint n_blocks);
/* Must be called when all blocks have been run: the new version becomes the newest. */
void tps_model_update_end (TpsModelUpdate *update);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTrainedModel, tps_trained_model_unref)

G_END_DECLS
