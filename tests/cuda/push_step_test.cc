/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Counts the launches of small pushes on the fake CUDA runtime, and checks their result. */

#include "tests/cuda/push_step.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/cuda/host/fake_runtime.h"

namespace {

TEST (PushStep, IsAFewLaunchesAndOneAllocation)
{
  for (auto [n_ids, n_launches] : push_step::kPushes)
    {
      push_step::Push push (n_ids);
      arrays::Memory none (arrays::ON_DEVICE);
      gfloat value = 0;

      ASSERT_EQ (push.code (), cudaSuccess);
      fake_cuda_reset ();
      EXPECT_EQ (push.enqueue (nullptr), cudaSuccess);
      EXPECT_EQ (fake_cuda_count_calls ("launch"), n_launches) << n_ids;
      EXPECT_EQ (fake_cuda_count_calls ("cudaMallocAsync"), 1) << n_ids;
      EXPECT_EQ (fake_cuda_count_calls ("cudaMemcpyAsync"), 0) << n_ids;
      EXPECT_EQ (arrays::Steps (none).read (&value, push.values (), 1).code, cudaSuccess);
      /* All gradients are 1, so the mean of their squares is 1. */
      EXPECT_FLOAT_EQ (value, -0.01f) << n_ids;
    }
}

} // namespace
