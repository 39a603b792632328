/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model with its optimizer: the arithmetic of an update, which makes a new version and leaves the
 * old ones as they are.
 *
 * Bits: per element, float sum of the gradients in the order given, one division by their number,
 * then the optimizer's formula. How the blocks are shared among threads makes no difference.
 *
 * Thread: one update at a time; its blocks on any threads. References: any.
 */

#pragma once

#include "runtime/tensor/optimizer.h"
#include "runtime/server/push_window.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

typedef struct TpsTrainedModel TpsTrainedModel;

/* Copies `parameters` into version 1. `optimizer` need not be resolved. Errors: INVALID_ARGUMENT
 * (none, a name twice, not FLOAT32, the optimizer), RESOURCE_EXHAUSTED. */
TpsTrainedModel *tps_trained_model_new (const TpsNamedTensor *parameters, guint n_parameters,
                                        const TpsOptimizerSpec *optimizer, GError **error);
TpsTrainedModel *tps_trained_model_ref (TpsTrainedModel *model);
void tps_trained_model_unref (TpsTrainedModel *model);

/* Whether it began with the same: TRUE for identical bytes and an equal optimizer. */
gboolean tps_trained_model_began_as (const TpsTrainedModel *model, const TpsTrainedModel *other);

/* Borrowed until the next update ends. */
TpsModelVersion *tps_trained_model_get_newest (const TpsTrainedModel *model);

gsize tps_trained_model_get_n_bytes (const TpsTrainedModel *model);

/* What it began with: began_as() compares this. */
const TpsPushDigest *tps_trained_model_get_beginning (const TpsTrainedModel *model);

/* The optimizer's state: FLOAT32 [n_floats], by blocks of the parameters (trained_model.c);
 * borrowed, and changed by updates. */
gfloat *tps_trained_model_get_state (const TpsTrainedModel *model, gsize *n_floats);

/* A reference to the state as it is, which stays so: the next update works on a copy, in `spare`,
 * as large as the state, which is taken over. No update may be under way. */
TpsBuffer *tps_trained_model_share_state (TpsTrainedModel *model, TpsBuffer *spare);
/* The spare is no longer needed, if no update has taken it. No update may be under way. */
void tps_trained_model_drop_spare (TpsTrainedModel *model);

/* A model that goes on from `newest`, of which a reference is taken. The state is 0, for the caller
 * to fill. `optimizer` is resolved. Errors: as tps_trained_model_new(). */
TpsTrainedModel *tps_trained_model_new_restored (TpsModelVersion *newest,
                                                 const TpsOptimizerSpec *optimizer,
                                                 const TpsPushDigest *beginning, GError **error);

/* Resolved; borrowed. */
const TpsOptimizerSpec *tps_trained_model_get_optimizer (const TpsTrainedModel *model);

/* One update, under way. Where the digest of gradients is wanted, their blocks are hashed in the
 * same visit. */
typedef struct
{
  TpsTrainedModel *model;
  const TpsTensor *const *gradients; /* [n_gradients][parameters], borrowed */
  guint n_gradients;
  TpsPushDigest *
      *hashes; /* [n_gradients]: NULL, or of all blocks, see tps_update_digest_combine() */
  TpsModelVersion *version; /* the new one */
  TpsBuffer *state;         /* the new one; NULL: the state is changed where it is */
  guint n_blocks;           /* >= 1 */
} TpsModelUpdate;

/* Errors: RESOURCE_EXHAUSTED; nothing is changed then, and there is nothing to end. */
gboolean tps_model_update_begin (TpsModelUpdate *update, TpsTrainedModel *model,
                                 const TpsTensor *const *gradients, guint n_gradients,
                                 GError **error);
/* Before the first block is run: the blocks of `gradients[i]` are to be hashed. */
void tps_model_update_want_hashes (TpsModelUpdate *update, guint i);
/* Each block once. */
void tps_model_update_run (TpsModelUpdate *update, guint first_block, guint n_blocks);
/* When all have been run: the new version is the newest. */
void tps_model_update_end (TpsModelUpdate *update);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTrainedModel, tps_trained_model_unref)

G_END_DECLS
