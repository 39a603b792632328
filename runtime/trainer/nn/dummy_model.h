/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "DummyModel": the mean of embedding rows, consecutive linear layers without activations, and a
 * softmax.
 *
 * Arguments: num_embeddings, embedding_dim, dense_input_size, dense_output_size, dense_layers_count
 * (integers from 1), sparse (boolean: the form of the embedding's gradient). embedding_dim must
 * equal dense_input_size; with several layers, dense_input_size must equal dense_output_size. Input
 * INT64 [batch, length], output FLOAT32 [batch, dense_output_size]. Parameters: embedding.weight,
 * dense.0.weight, dense.0.bias, dense.1.weight, …
 */

#pragma once

#include "runtime/trainer/nn/model.h"

extern const TpsModelClass tps_dummy_model_class;
