/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pooled rows of a table, one bag a sample. Same arithmetic as torch.nn.EmbeddingBag, up to the
 * order of sums. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/nn/model.h"

G_BEGIN_DECLS

#define TPS_EMBEDDING_BAG_PLACES 2

/* Borrows its parameter, table [rows, dim], whose is_sparse decides the form of the gradient. */
typedef struct
{
  gint64 rows, dim;
  TpsPooling pooling; /* SUM or MEAN */
  TpsParameter *table;

  /* Sparse gradients use these in turn, since a sender may keep one until it sends the next. */
  TpsBuffer *places[TPS_EMBEDDING_BAG_PLACES];
  guint place; /* of the next one */
} TpsEmbeddingBag;

/* Memory only. When the streams that work on it have passed. */
void tps_embedding_bag_clear (TpsEmbeddingBag *bag);

/* Normal, mean 0, deviation 1, as PyTorch's default. */
void tps_embedding_bag_init_parameters (const TpsEmbeddingBag *bag, gint64 seed, guint64 stream);

/* Memory for the gradient of a pass with this input, where it is sparse; the last one,
 * table->sparse_gradient, is let go of. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_embedding_bag_reserve (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                                    GError **error);

/* input: INT64 [batch, length], ids in [0, rows); output [batch, dim]. Enqueues on `stream`. */
void tps_embedding_bag_forward (const TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                                gfloat *output);

/* Fills the gradient of the table from the forward pass's input and the gradient of the output
 * [batch, dim]: dense into table->gradient, sparse into table->sparse_gradient (coalesced, what was
 * reserved). Blocks where sparse. */
void tps_embedding_bag_backward (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                                 const gfloat *output_gradient);

G_END_DECLS
