/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the cases of huge_arrays.cu with small sizes on the fake CUDA runtime. Checks their results,
 * and compares the memory that they claim to need with the fake's allocations. */

#include "tests/cuda/huge_cases.h"

#include <gtest/gtest.h>

#include "tests/cuda/host/fake_runtime.h"

namespace {

using namespace huge_arrays;

const gsize sizes[] = { kBagRows, 31 * kBagRows, 1000 * kBagRows };

TEST (HugeCases, NeedTheMemoryThatTheyAllocate)
{
  constexpr gsize n_slack = 4096; /* for CUB's memory and single numbers */

  for (const Case &one : kCases)
    for (gsize n : sizes)
      for (Place place : { ON_DEVICE, IN_HOST_MEMORY })
        {
          Need need = one.need (n);
          gsize on_device = need.device + (place == ON_DEVICE ? need.inputs : 0);
          int n_wrong = 0;

          fake_cuda_reset ();
          {
            Memory memory (place);

            ASSERT_EQ (one.run (&memory, n, &n_wrong), cudaSuccess) << one.name << " " << n;
          }
          EXPECT_EQ (n_wrong, 0) << one.name << " " << n;
          EXPECT_LE (fake_cuda_get_most_bytes (cudaMemoryTypeDevice), on_device + n_slack)
              << one.name << " " << n;
          EXPECT_GE (fake_cuda_get_most_bytes (cudaMemoryTypeDevice) + n_slack, on_device)
              << one.name << " " << n;
          EXPECT_EQ (fake_cuda_get_most_bytes (cudaMemoryTypeHost),
                     place == ON_DEVICE ? 0 : need.inputs)
              << one.name << " " << n;
        }
}

TEST (HugeCases, InputsAreOnTheDeviceIfTheyFitThere)
{
  const Need need = { 10 * kGiB, 4 * kGiB };

  EXPECT_EQ (place_inputs (need, { 14 * kGiB + kReserve, 0 }), ON_DEVICE);
  EXPECT_EQ (place_inputs (need, { 14 * kGiB + kReserve - 1, 4 * kGiB + kReserve }),
             IN_HOST_MEMORY);
  EXPECT_EQ (place_inputs (need, { 14 * kGiB + kReserve - 1, 4 * kGiB + kReserve - 1 }), NOWHERE);
  EXPECT_EQ (place_inputs (need, { 10 * kGiB + kReserve - 1, 100 * kGiB }), NOWHERE);
}

} // namespace
