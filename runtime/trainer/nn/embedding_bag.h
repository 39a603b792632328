/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pooled rows of a table, one bag for each sample. The arithmetic is that of torch.nn.EmbeddingBag,
 * except for the order of sums. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/trainer/nn/model.h"

#define TPS_EMBEDDING_BAG_PLACES 2

/* Borrows its parameter, a table [rows, dim]. The parameter's `is_sparse` selects the form of the
 * gradient. */
typedef struct
{
  gint64 rows, dim;
  TpsPooling pooling; /* SUM or MEAN */
  TpsParameter *table;

  /* Sparse gradients use these buffers in turn, because a sender may hold one gradient until it
   * sends the next. */
  TpsBuffer *places[TPS_EMBEDDING_BAG_PLACES];
  guint place; /* index of the next buffer */
} TpsEmbeddingBag;

/* Releases the memory. Streams must have passed all work that uses it. */
void tps_embedding_bag_clear (TpsEmbeddingBag *bag);

/* Fills the table with normal numbers of mean 0 and standard deviation 1, PyTorch's default, from
 * stream number `stream` of the generator. */
void tps_embedding_bag_init_parameters (const TpsEmbeddingBag *bag, gint64 seed, guint64 stream);

/* Reserves memory for the sparse gradient of a pass with this input, and releases the previous
 * gradient, table->sparse_gradient. Does nothing for a dense gradient. May block. Errors:
 * RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_embedding_bag_reserve (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                                    GError **error);

/* Enqueues the forward pass. `input` must be INT64 [batch, length] with ids in [0, rows); `output`
 * is [batch, dim]. */
void tps_embedding_bag_forward (const TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                                gfloat *output);

/* Computes the gradient of the table from the input of the forward pass and the gradient of the
 * output [batch, dim]. A dense gradient is written to table->gradient, a sparse one to
 * table->sparse_gradient (coalesced, in the reserved memory). Blocks if the gradient is sparse. */
void tps_embedding_bag_backward (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                                 const gfloat *output_gradient);
