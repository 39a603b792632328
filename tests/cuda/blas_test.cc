/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How matrix products call cuBLAS, with a fake library. The conformance suite tests their results.
 */

#include <dlfcn.h>

#include <cstdint>

#include <gtest/gtest.h>

#include "cuda/device/device.h"

namespace {

TEST (Blas, SizesBeyond32BitsArriveWhole)
{
  static TpsCudaDevice *const device = tps_cuda_device_new (0, &tps_cuda_ops, nullptr);
  const gsize huge = ((gsize) 1 << 32) + 3;
  TpsStream *stream = tps_cuda_ops.stream_new (&device->parent, nullptr);
  TpsGemm gemm = {};
  GError *error = nullptr;

  gemm.m = huge + 1;
  gemm.n = huge + 2;
  gemm.k = huge;
  tps_cuda_ops.gemm (stream, &gemm);
  EXPECT_TRUE (tps_cuda_ops.stream_sync (stream, &error)) << error->message;
  tps_cuda_ops.stream_free (stream);

  void *library = dlopen ("libcublas.so.13", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE (library, nullptr);
  auto last_shape = (const int64_t *(*) (void) ) dlsym (library, "fake_cublas_get_last_shape");
  ASSERT_NE (last_shape, nullptr);
  /* cuBLAS is column-major, so the operands are swapped. */
  EXPECT_EQ (last_shape ()[0], (int64_t) huge + 2);
  EXPECT_EQ (last_shape ()[1], (int64_t) huge + 1);
  EXPECT_EQ (last_shape ()[2], (int64_t) huge);
  dlclose (library);
}

} // namespace
