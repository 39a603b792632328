/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Matrix products without OpenBLAS. The linker replaces tps_module_open() by the function below
 * (--wrap, see BUILD). */

#include "runtime/trainer/dense/blas.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/base/trace_capture.h"

extern "C" void *__wrap_tps_module_open (const gchar *const *paths, GString *reasons);

extern "C" void *
__wrap_tps_module_open (const gchar *const *paths, GString *reasons)
{
  g_string_append_printf (reasons, "%s: not installed", paths[0]);
  return nullptr;
}

namespace {

constexpr size_t N = 80;

/* Returns an N x N matrix of small integers, so that sums are exact. */
std::vector<float>
square (int step)
{
  std::vector<float> values;

  for (int i = 0; i < static_cast<int> (N * N); i++)
    values.push_back (static_cast<float> (i * step % 7 - 3));
  return values;
}

TEST (BlasMissing, productsAreRightAndTheLibraryIsNamedOnce)
{
  thriftps_test::TraceCapture log;
  std::vector<float> a = square (3), b = square (5), c (N * N);
  TpsGemm gemm = {};

  gemm.m = gemm.n = gemm.k = N;
  gemm.alpha = 1;
  gemm.a = a.data ();
  gemm.b = b.data ();
  gemm.c = c.data ();
  for (int repeat = 0; repeat < 2; repeat++)
    tps_cpu_gemm (nullptr, &gemm);
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < N; j++)
      {
        float sum = 0;

        for (size_t k = 0; k < N; k++)
          sum += a[i * N + k] * b[k * N + j];
        ASSERT_EQ (c[i * N + j], sum) << i << " " << j;
      }
  ASSERT_EQ (log.Lines ("blas_missing").size (), 1u);
  EXPECT_EQ (log.Lines ("blas_missing")[0], "warning blas_missing library=libopenblas.so.0 "
                                            "reason=\"libopenblas.so.0: not installed\"");
}

} // namespace
