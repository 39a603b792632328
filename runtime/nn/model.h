/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A trainable model: parameters whose storage its user lays out, a forward pass, and a backward
 * pass that reports each gradient when it is ready.
 *
 * Life: create -> (DDP decides buckets and binds storage) -> tps_model_fill_parameters() ->
 * forward/backward per batch.
 *
 * Devices: a model computes on one device, on a stream of its own; values, gradients, input, output
 * and the gradient of the output lie in that device's memory. Passes enqueue on the stream. Code
 * that reads their results on another stream, or on the host, must wait for that stream first (an
 * event, or stream_sync, which also says whether the device failed).
 *
 * One thread at a time.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/gradient.h"
#include "runtime/nn/batch.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;    /* as PyTorch's: "embedding.weight", "fc1.weight", … */
  TpsShape shape; /* FLOAT32 */
  gboolean is_sparse;

  /* Bound by the owner of the storage, in memory of the model's device; 64-byte alignment is not
   * promised. */
  gfloat *value;    /* [n_elems] */
  gfloat *gradient; /* [n_elems] for dense parameters, NULL for sparse ones */

  /* Of a sparse parameter: filled by backward, coalesced (ids ascending and unique), weight 1, in
   * buffers of the device's memory (tps_buffer_get_device()). The next forward pass releases it.
   * Code that reads it longer, or on a stream of its own, must keep a reference until then: the
   * model writes again to buffers without another owner. */
  TpsGradient sparse_gradient;
} TpsParameter;

typedef struct TpsModel TpsModel;

/* Parameter number `index`'s gradient will not change in this backward pass: what completes it is
 * enqueued on the model's stream. How many rows a sparse one has is known. */
typedef void (*TpsGradientReady) (gpointer user_data, guint index);

/* One entry of the model registry. */
typedef struct
{
  const gchar *name;
  /* A model that computes on `device`; NULL = the CPU. Errors: INVALID_ARGUMENT naming the
   * configuration key, DEVICE_LOST. */
  TpsModel *(*create) (GVariant *config, TpsDevice *device, GError **error);
  void (*free) (TpsModel *model);
  /* Fills all values from `seed`: the same on every platform and for every trainer. The
   * distributions are those of the PyTorch layers. While it is called the values are bound to host
   * memory, see tps_model_fill_parameters(). */
  void (*init_parameters) (TpsModel *model, gint64 seed);
  /* Whether a batch, which lies in host memory, fits: dtypes, shapes, ids and targets in range.
   * Errors: INVALID_ARGUMENT naming which. */
  gboolean (*check_batch) (TpsModel *model, const TpsTrainBatch *batch, GError **error);
  /* Computes the output [batch, classes] FLOAT32, kept by the model until the next forward; the
   * view is borrowed, and of the device's memory. `input` stays borrowed and unchanged until the
   * stream has passed the backward pass. Allocates what both passes need, where there is not enough
   * from earlier ones. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; the model can be used again, with a
   * smaller batch. */
  gboolean (*forward) (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error);
  /* From the gradient of the output (same shape, borrowed until the stream has passed) all
   * parameters' gradients, last layer first; `ready` is called from this thread as soon as each is
   * enqueued, before the gradient of that layer's input is. What fails shows on the stream. */
  void (*backward) (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                    gpointer user_data);
} TpsModelClass;

/* Implementations embed this as their first member. */
struct TpsModel
{
  const TpsModelClass *klass;
  TpsStream *stream; /* the model's own, of its device */
  guint n_parameters;
  TpsParameter *parameters; /* in PyTorch's order of model.parameters() */
};

/* For implementations: class and a stream of `device` (NULL = the CPU), and the other way round:
 * the stream, waiting for what is queued. Errors: DEVICE_LOST; nothing is to be cleared then. */
gboolean tps_model_init (TpsModel *model, const TpsModelClass *klass, TpsDevice *device,
                         GError **error);
void tps_model_clear (TpsModel *model);

/* For owners of storage: fills all bound values from `seed`, with init_parameters; by way of host
 * memory where the device's is not. Blocks. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_model_fill_parameters (TpsModel *model, gint64 seed, GError **error);

/* Looks up a class: built-in ("DummyModel", "HybridModel", "LinearModel") or registered. NULL with
 * NOT_FOUND, the message lists the known names. */
const TpsModelClass *tps_model_class_find (const gchar *name, GError **error);
/* Registers another; `klass` must stay. Before any trainer runs. */
void tps_model_class_register (const TpsModelClass *klass);
/* Names in order, static strings in an array owned by the caller (g_free). */
const gchar **tps_model_class_list (void);

/* A loss on a model's output: one entry of the criterion registry ("cel" = cross-entropy, mean over
 * the batch). */
typedef struct
{
  const gchar *name;
  /* Enqueues on `stream`: *loss and `output_gradient` [batch, classes]. All lies in memory of the
   * stream's device but *loss, which lies in host memory that the device writes (alloc_host); both
   * can be read when the stream has passed, on the CPU at once. */
  void (*forward_backward) (TpsStream *stream, TpsTensorView output, TpsTensorView target,
                            gdouble *loss, gfloat *output_gradient);
} TpsCriterion;

const TpsCriterion *tps_criterion_find (const gchar *name, GError **error);
void tps_criterion_register (const TpsCriterion *criterion);
const gchar **tps_criterion_list (void);

G_END_DECLS
