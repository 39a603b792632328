/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the calls to cuBLAS for matrix products, with a fake library. For their results see the
 * conformance suite. */

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "cuda/device/device.h"
#include "runtime/device/dense.h"
#include "runtime/base/error.h"
#include "tests/cuda/host/fake_runtime.h"

namespace {

TpsCudaDevice *
get_device ()
{
  static TpsCudaDevice *const device = tps_cuda_device_new (0, &tps_cuda_ops, nullptr);

  return device;
}

/* Returns a function of the fake library, which must be loaded. */
template <typename F>
F
fake_function (const char *name)
{
  void *library = dlopen ("libcublas.so.13", RTLD_NOW | RTLD_NOLOAD);
  auto function = (F) dlsym (library, name);

  EXPECT_NE (function, nullptr) << name;
  dlclose (library);
  return function;
}

/* Computes a product on a new stream, for which a handle is created. Returns the error message, or
 * "". */
std::string
multiply (const TpsGemm &gemm)
{
  TpsStream *stream = tps_cuda_ops.stream_new (&get_device ()->parent, nullptr);
  g_autoptr (GError) error = nullptr;

  tps_cuda_dense_ops.gemm (stream, &gemm);
  tps_cuda_ops.stream_sync (stream, &error);
  tps_cuda_ops.stream_free (stream);
  return error != nullptr ? tps_error_code_name (error->code) + std::string (" ") + error->message
                          : "";
}

TEST (Blas, SizesBeyond32BitsArriveWhole)
{
  const gsize huge = ((gsize) 1 << 32) + 3;
  TpsGemm gemm = {};

  gemm.m = huge + 1;
  gemm.n = huge + 2;
  gemm.k = huge;
  EXPECT_EQ (multiply (gemm), "");
  auto last_shape = fake_function<const int64_t *(*) ()> ("fake_cublas_get_last_shape");
  /* cuBLAS is column-major, so the operands are swapped. */
  EXPECT_EQ (last_shape ()[0], (int64_t) huge + 2);
  EXPECT_EQ (last_shape ()[1], (int64_t) huge + 1);
  EXPECT_EQ (last_shape ()[2], (int64_t) huge);
}

/* The library was loaded by the test above, or will be loaded by the first product here. */
TEST (Blas, AHandleWithoutMemoryIsCreatedOnceMoreAfterThePoolWasTrimmed)
{
  TpsGemm gemm = {};

  gemm.m = gemm.n = gemm.k = (gsize) 1 << 32; /* the fake does not compute such a product */
  EXPECT_EQ (multiply (gemm), "");
  auto fail_create = fake_function<void (*) (int)> ("fake_cublas_fail_create");
  fake_cuda_reset ();
  fail_create (1);
  EXPECT_EQ (multiply (gemm), "");
  EXPECT_EQ (fake_cuda_count_calls ("cudaMemPoolTrimTo"), 1);
  fail_create (2);
  EXPECT_EQ (multiply (gemm), "RESOURCE_EXHAUSTED cuBLAS: new handle: fake");
  EXPECT_EQ (fake_cuda_count_calls ("cudaMemPoolTrimTo"), 2);
  EXPECT_EQ (multiply (gemm), "");
}

} // namespace
