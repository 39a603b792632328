/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A DummyModel with its own storage, which it binds as a DDP does. */

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/trainer/nn/model.h"

namespace nn_test {

struct DummySizes
{
  int64_t rows, dim, outputs, layers;
  bool sparse;
};

GVariant *dummy_config (const DummySizes &sizes); // a floating reference

TpsTensor make_tensor (const std::vector<int64_t> &values, const std::vector<int64_t> &dims);

class BoundModel
{
public:
  explicit BoundModel (const DummySizes &sizes);
  ~BoundModel ();
  BoundModel (const BoundModel &) = delete;
  BoundModel &operator= (const BoundModel &) = delete;

  TpsParameter &
  parameter (size_t i)
  {
    return model->parameters[i];
  }
  std::vector<float> &
  values (size_t i)
  {
    return values_[i];
  }

  // Runs forward with this batch, and keeps the batch for backward.
  std::vector<float> forward (const std::vector<int64_t> &input, const std::vector<int64_t> &dims);
  // Runs forward, the criterion and backward; returns the loss.
  double step (const char *criterion, const std::vector<int64_t> &input,
               const std::vector<int64_t> &dims, const std::vector<int64_t> &target);
  // Returns the gradient as a dense matrix, even for a sparse parameter.
  std::vector<float> gradient (size_t i);

  TpsModel *model;
  std::vector<guint> ready; // parameter numbers in the order in which backward reported them

private:
  std::vector<std::vector<float>> values_, gradients_;
  TpsTensor input_ {};
};

} // namespace nn_test
