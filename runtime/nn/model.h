/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A trainable model: parameters whose storage somebody else lays out, forward, and a backward that says as it goes which
 * gradients are ready.
 *
 * Life: create -> (DDP decides buckets and binds storage) -> tps_model_init_parameters() -> forward/backward per batch.
 * One thread at a time.
 */

#pragma once

#include "runtime/gradient.h"
#include "runtime/nn/batch.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;    /* as PyTorch's: "embedding.weight", "fc1.weight", … */
  TpsShape shape; /* FLOAT32 */
  gboolean is_sparse;

  /* Bound by the owner of the storage before init_parameters; 64-byte alignment is not promised. */
  gfloat *value;    /* [n_elems] */
  gfloat *gradient; /* [n_elems] for dense parameters, NULL for sparse ones */

  /* Of a sparse parameter: filled by backward, coalesced (ids ascending and unique), weight 1. */
  TpsGradient sparse_gradient;
} TpsParameter;

typedef struct TpsModel TpsModel;

/* Parameter number `index`'s gradient is complete and will not change in this backward pass. */
typedef void (*TpsGradientReady) (gpointer user_data, guint index);

/* One entry of the model registry. */
typedef struct
{
  const gchar *name;
  /* Errors: INVALID_ARGUMENT naming the configuration key. */
  TpsModel *(*create) (GVariant *config, GError **error);
  void (*free) (TpsModel *model);
  /* Fills all bound values from `seed`: the same on every platform and for every trainer. The distributions are those of
   * the PyTorch layers. */
  void (*init_parameters) (TpsModel *model, gint64 seed);
  /* Whether a batch fits: dtypes, shapes, ids and targets in range. Errors: INVALID_ARGUMENT naming which. */
  gboolean (*check_batch) (TpsModel *model, const TpsTrainBatch *batch, GError **error);
  /* Computes the output [batch, classes] FLOAT32, kept by the model until the next forward; the view is borrowed.
   * `input` stays borrowed until the end of the backward pass. */
  TpsTensorView (*forward) (TpsModel *model, TpsTensorView input);
  /* From the gradient of the output (same shape, borrowed) all parameters' gradients, last layer first; `ready` is called
   * from this thread as soon as each is complete, before the gradient of that layer's input is computed. */
  void (*backward) (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                    gpointer user_data);
} TpsModelClass;

/* Implementations embed this as their first member. */
struct TpsModel
{
  const TpsModelClass *klass;
  guint n_parameters;
  TpsParameter *parameters; /* in PyTorch's order of model.parameters() */
};

/* Looks up a class: built-in ("DummyModel", "HybridModel", "LinearModel") or registered. NULL with NOT_FOUND, the message lists the known names. */
const TpsModelClass *tps_model_class_find (const gchar *name, GError **error);
/* Registers another; `klass` must stay. Before any trainer runs. */
void tps_model_class_register (const TpsModelClass *klass);
/* Names in order, static strings in an array owned by the caller (g_free). */
const gchar **tps_model_class_list (void);

/* A loss on a model's output: one entry of the criterion registry ("cel" = cross-entropy, mean over the batch). */
typedef struct
{
  const gchar *name;
  /* Returns the loss and fills `output_gradient` [batch, classes]. */
  gdouble (*forward_backward) (TpsTensorView output, TpsTensorView target, gfloat *output_gradient);
} TpsCriterion;

const TpsCriterion *tps_criterion_find (const gchar *name, GError **error);
void tps_criterion_register (const TpsCriterion *criterion);
const gchar **tps_criterion_list (void);

G_END_DECLS
