/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "DummyModel": mean of embedding rows, linear layers in a row without activations, softmax.
 *
 * Arguments: num_embeddings, embedding_dim, dense_input_size, dense_output_size, dense_layers_count
 * (integers from 1), sparse (boolean: the form of the embedding's gradient). embedding_dim must be
 * dense_input_size, which with several layers must be dense_output_size. Input INT64 [batch,
 * length], output FLOAT32 [batch, dense_output_size]. Parameters: embedding.weight, dense.0.weight,
 * dense.0.bias, dense.1.weight, …
 */

#pragma once

#include "runtime/nn/model.h"

G_BEGIN_DECLS

extern const TpsModelClass tps_dummy_model_class;

G_END_DECLS
