/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A trainable model: parameters in storage provided by the caller, a forward pass, and a backward
 * pass that reports each gradient as soon as it is enqueued.
 *
 * Sequence of use: create; the DDP chooses the buckets and binds the storage;
 * tps_model_fill_parameters(); forward and backward for each batch.
 *
 * A model computes on one device, on a stream of its own. Values, gradients, input, output and the
 * gradient of the output lie in the memory of that device. Passes enqueue work on the stream. Code
 * that reads their results on another stream or on the host must wait for the model's stream first
 * (with an event, or with stream_sync, which also reports a device failure).
 *
 * Thread: a model must be used by one thread at a time.
 */

#pragma once

#include "runtime/base/registry.h"
#include "runtime/device/backend.h"
#include "runtime/tensor/gradient.h"
#include "runtime/tensor/batch.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;    /* PyTorch's name: "embedding.weight", "fc1.weight", … */
  TpsShape shape; /* FLOAT32 */
  gboolean is_sparse;

  /* Bound by the owner of the storage to memory of the model's device. An alignment to 64 bytes is
   * not guaranteed. */
  gfloat *value;    /* [n_elems] */
  gfloat *gradient; /* [n_elems] for dense parameters, NULL for sparse ones */

  /* The gradient of a sparse parameter, written by backward: coalesced (ids ascending and unique),
   * with weight 1, in buffers in the device's memory (tps_buffer_get_device()). The next forward
   * pass releases the gradient. Code that reads the gradient later, or on a different stream, must
   * hold a reference until then, because the model reuses buffers that have no other owner. */
  TpsGradient sparse_gradient;
} TpsParameter;

typedef struct TpsModel TpsModel;

/* Reports that all work for the gradient of parameter `index` has been enqueued on the model's
 * stream. No later work of this backward pass changes the gradient. The number of rows of a sparse
 * gradient is known. */
typedef void (*TpsGradientReady) (gpointer user_data, guint index);

/* An entry of the model registry. */
typedef struct
{
  const gchar *name;
  /* Creates a model that computes on `device`; NULL means the CPU. The caller owns the model and
   * must free it with free(). Errors: INVALID_ARGUMENT naming the configuration key;
   * DEVICE_LOST. */
  TpsModel *(*create) (GVariant *config, TpsDevice *device, GError **error);
  void (*free) (TpsModel *model);
  /* Fills all values from `seed`, with the distributions of the PyTorch layers. The values must be
   * the same on every platform and for every trainer. The values must be bound to host memory
   * during the call, see tps_model_fill_parameters(). */
  void (*init_parameters) (TpsModel *model, gint64 seed);
  /* Checks a batch, which lies in host memory: dtypes, shapes, and the ranges of ids and targets.
   * Errors: INVALID_ARGUMENT; the message names the value. */
  gboolean (*check_batch) (TpsModel *model, const TpsTrainBatch *batch, GError **error);
  /* Computes the output, FLOAT32 [batch, classes], in the device's memory. The view is borrowed
   * until the next forward pass. `input` stays borrowed and must not change until the stream has
   * passed the backward pass. Allocates the memory of both passes if the memory of earlier passes
   * is too small. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. After RESOURCE_EXHAUSTED, the model can
   * be used again with a smaller batch. */
  gboolean (*forward) (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error);
  /* Computes the gradients of all parameters, the last layer first, from the gradient of the output
   * (of the same shape as the output; borrowed until the stream has passed the backward pass).
   * Calls `ready` on this thread as soon as the computation of each gradient has been enqueued. The
   * stream reports failures. */
  void (*backward) (TpsModel *model, const gfloat *output_gradient, TpsGradientReady ready,
                    gpointer user_data);
} TpsModelClass;

/* Implementations embed this struct as their first member. */
struct TpsModel
{
  const TpsModelClass *klass;
  TpsStream *stream; /* owned by the model; a stream of its device */
  guint n_parameters;
  TpsParameter *parameters; /* in PyTorch's order of model.parameters() */
};

/* For implementations: tps_model_init() sets the class and creates a stream of `device` (NULL means
 * the CPU); tps_model_clear() waits for queued work and frees the stream. Errors: DEVICE_LOST; the
 * model then has no stream, and tps_model_clear() has no effect. */
gboolean tps_model_init (TpsModel *model, const TpsModelClass *klass, TpsDevice *device,
                         GError **error);
void tps_model_clear (TpsModel *model);

/* For owners of the storage: fills all bound values from `seed` with init_parameters. If the device
 * does not use host memory, the values are filled in host memory and then copied. Blocks. Errors:
 * RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_model_fill_parameters (TpsModel *model, gint64 seed, GError **error);

/* Built-in: "DummyModel", "HybridModel", "LinearModel". */
TPS_DECLARE_REGISTRY (TpsModelClass, tps_model_class);

/* A loss of a model's output: an entry of the criterion registry. */
typedef struct
{
  const gchar *name;
  /* Enqueues the computation of *loss and of `output_gradient` [batch, classes] on `stream`. *loss
   * must lie in host memory that the device can write (alloc_host), and all other arrays in the
   * memory of the stream's device. Both results can be read when the stream has passed this work;
   * on the CPU, at once. */
  void (*forward_backward) (TpsStream *stream, TpsTensorView output, TpsTensorView target,
                            gdouble *loss, gfloat *output_gradient);
} TpsCriterion;

/* Built-in: "cel", the cross-entropy of the softmax of the output [batch, classes] with the target
 * INT64 [batch], averaged over the batch, as torch.nn.CrossEntropyLoss; "l1", the mean of |output -
 * target|, which must have the same shape, as torch.nn.L1Loss. */
TPS_DECLARE_REGISTRY (TpsCriterion, tps_criterion);

G_END_DECLS
