/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model with its optimizer: the arithmetic of an update, which makes a new version. For each
 * element, it computes the float sum of the gradients in the given order, divides it once by their
 * number, and applies the optimizer's formula, with the same bits for any distribution of blocks.
 * Thread: one update at a time, its blocks and references on any threads. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/base/worker_pool.h"
#include "runtime/device/cpu/optimizer/optimizer.h"
#include "runtime/tensor/optimizer.h"
#include "runtime/server/push_window.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

/* The size of a block, whose gradients fit into any first-level cache. The size is a constant
 * because snapshots hold the optimizer's state by blocks. */
#define TPS_TRAINED_MODEL_BLOCK_BYTES 8192
/* Bounds the lists of each push and of each update, which have an element for each parameter. */
#define TPS_TRAINED_MODEL_MAX_PARAMETERS 65536

/* `newest`, `optimizer` and `beginning` may be read by users; the other fields are private. */
typedef struct
{
  TpsRefcount refcount;
  TpsModelVersion *newest;    /* borrowed until the next update ends */
  TpsOptimizerSpec optimizer; /* resolved */
  TpsUpdateRow *update_row;
  GArray *blocks;  /* of Block */
  gsize max_elems; /* of a block */
  gsize n_state;   /* floats */
  gsize n_hashes;  /* blocks of the digest */
  TpsBufferPool *buffers;
  TpsBufferPool *shared_versions; /* NULL = `buffers` */
  TpsBuffer *state;
  TpsBuffer *spare;        /* for the state of the next update, if the present state is shared */
  TpsPushDigest beginning; /* of the parameters of version 1, see began_as() */
} TpsTrainedModel;

/* Creates a model whose version 1 is a copy of `parameters`, owned by the caller. `optimizer` need
 * not be resolved. Memory comes from `buffers`, to which a reference is taken. Errors:
 * INVALID_ARGUMENT (parameters: none, too many, a repeated name, not FLOAT32; the optimizer),
 * RESOURCE_EXHAUSTED. */
TpsTrainedModel *tps_trained_model_new (const TpsNamedTensor *parameters, guint n_parameters,
                                        const TpsOptimizerSpec *optimizer, TpsBufferPool *buffers,
                                        GError **error);
/* Sets the pool for later versions whose gradients came through shared memory. If it is NULL or not
 * set, these versions come from `buffers`, as all other versions do. A reference is taken. Must be
 * called at most once. */
void tps_trained_model_set_shared_versions (TpsTrainedModel *model, TpsBufferPool *versions);
TpsTrainedModel *tps_trained_model_ref (TpsTrainedModel *model);
void tps_trained_model_unref (TpsTrainedModel *model);

/* TRUE: both began with the same parameters (names, shapes and bytes) and equal optimizers. */
gboolean tps_trained_model_began_as (const TpsTrainedModel *model, const TpsTrainedModel *other);

/* Returns the optimizer's state: FLOAT32 [n_floats], by blocks of the parameters (see
 * trained_model.c). Borrowed; updates change or replace it. */
gfloat *tps_trained_model_get_state (const TpsTrainedModel *model, gsize *n_floats);

/* Returns a reference to the present state, which does not change while the reference is held: the
 * next update works on a copy, in `spare`. Takes ownership of `spare`, which must be at least as
 * large as the state. No update may be in progress. */
TpsBuffer *tps_trained_model_share_state (TpsTrainedModel *model, TpsBuffer *spare);
/* Frees the spare buffer of tps_trained_model_share_state() unless an update has used it. No update
 * may be in progress. */
void tps_trained_model_drop_spare (TpsTrainedModel *model);

/* Creates a model that continues from `newest`, to which a reference is taken. `optimizer` must be
 * resolved. The optimizer's state is 0; the caller must fill it. Errors: as
 * tps_trained_model_new(). */
TpsTrainedModel *tps_trained_model_new_restored (TpsModelVersion *newest,
                                                 const TpsOptimizerSpec *optimizer,
                                                 const TpsPushDigest *beginning,
                                                 TpsBufferPool *buffers, GError **error);

/* Memory for the means of long rows. */
typedef struct TpsModelScratch TpsModelScratch;

/* An update in progress. If the digests of gradients are needed, a block's gradients are hashed
 * when the block is updated. */
typedef struct
{
  TpsTrainedModel *model;
  const TpsTensor *const *gradients; /* [n_gradients][parameters], borrowed */
  guint n_gradients;
  /* [n_gradients]: the hashes of all blocks, see tps_update_digest_combine(); NULL = not needed */
  TpsPushDigest **hashes;
  TpsModelVersion *version; /* the new version */
  TpsBuffer *state;         /* the new state; NULL = the state is changed in place */
  guint n_blocks;           /* >= 1 */
  TpsModelScratch *scratch; /* NULL = the update needs none */

  /* Of tps_model_update_compute(). */
  TpsWorkerPool *workers;
  void (*done) (gpointer user_data);
  gpointer user_data;
} TpsModelUpdate;

/* Begins an update with the mean of `gradients`, which are borrowed until end(). At most
 * `n_threads` threads, which must not exceed TPS_MODEL_MAX_THREADS, may run blocks at the same
 * time. Errors: RESOURCE_EXHAUSTED; the model is unchanged then, and end() must not be called. */
#define TPS_MODEL_MAX_THREADS 32
gboolean tps_model_update_begin (TpsModelUpdate *update, TpsTrainedModel *model,
                                 const TpsTensor *const *gradients, guint n_gradients,
                                 guint n_threads, GError **error);
/* Makes the update hash the blocks of `gradients[i]`. Must be called before the first block is
 * run. */
void tps_model_update_want_hashes (TpsModelUpdate *update, guint i);
/* Computes blocks [first_block, first_block + n_blocks). Each block must be run exactly once. */
void tps_model_update_run (TpsModelUpdate *update, guint first_block, guint n_blocks);
/* Returns the maximum number of threads on which tps_model_update_compute() runs blocks. */
guint tps_trained_model_get_n_threads (const TpsTrainedModel *model, TpsWorkerPool *workers);
/* Runs all blocks. Returns TRUE if they have been run, because the update is small. Otherwise,
 * `workers` run them, and the last one calls `done`. */
gboolean tps_model_update_compute (TpsModelUpdate *update, TpsWorkerPool *workers,
                                   void (*done) (gpointer user_data), gpointer user_data);
/* Makes the new version the newest. Must be called when all blocks have been run. */
void tps_model_update_end (TpsModelUpdate *update);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTrainedModel, tps_trained_model_unref)

G_END_DECLS
