/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the products of small batches with both widths of vectors. A program uses the width that
 * its processor supports. */

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/device/cpu/kernels/skinny_products.h"
#include "runtime/device/cpu/kernels/vectorize.h"
#include "tests/conformance/reference.h"
#include "tests/oracle/vectors.h"

namespace {

struct Width
{
  const char *name;
  const TpsSkinnyProducts *products;
  bool runs_here;
};

bool
has_avx512 ()
{
#ifdef TPS_TARGET_V4
  return __builtin_cpu_supports ("x86-64-v4");
#else
  return true;
#endif
}

class SkinnyProducts : public testing::TestWithParam<Width>
{
protected:
  std::mt19937 random { 1 };

  void
  SetUp () override
  {
    if (!GetParam ().runs_here)
      GTEST_SKIP () << "needs a processor with AVX-512 (x86-64-v4)";
  }

  std::vector<float>
  random_floats (size_t n)
  {
    std::uniform_real_distribution<float> uniform (-1, 1);
    std::vector<float> values (n);

    for (float &value : values)
      value = uniform (random);
    return values;
  }

  // `flags` is a combination of 1 (a is transposed) and 2 (b is transposed).
  TpsGemm
  make_gemm (int flags, size_t m, size_t n, size_t k, const std::vector<float> &a,
             const std::vector<float> &b, std::vector<float> &c)
  {
    return { .transpose_a = flags == 1,
             .transpose_b = flags == 2,
             .m = m,
             .n = n,
             .k = k,
             .alpha = 1,
             .beta = 0,
             .a = a.data (),
             .b = b.data (),
             .c = c.data () };
  }

  void
  run (const TpsGemm &gemm)
  {
    const TpsSkinnyProducts *products = GetParam ().products;

    if (gemm.transpose_b)
      products->times_transposed (&gemm);
    else if (gemm.transpose_a)
      products->transposed_times (&gemm);
    else
      products->times_matrix (&gemm);
  }

  // The error bound is 1e-6 per term. The product must write every element, and no memory after the
  // last one.
  void
  check (size_t m, size_t n, size_t k)
  {
    for (int flags : { 0, 1, 2 })
      {
        std::vector<float> a = random_floats (m * k), b = random_floats (k * n), expected (m * n);
        std::vector<float> c (m * n + 16, NAN);
        TpsGemm gemm = make_gemm (flags, m, n, k, a, b, c);

        reference::gemm (gemm, expected.data ());
        run (gemm);
        for (size_t i = m * n; i < c.size (); i++)
          ASSERT_TRUE (std::isnan (c[i])) << m << "x" << n << "x" << k << " flags " << flags;
        c.resize (m * n);
        ASSERT_LT (oracle::worst_difference (c, expected), 1e-6 * (double) (k + 2))
            << m << "x" << n << "x" << k << " flags " << flags;
      }
  }
};

TEST_P (SkinnyProducts, MatchTheReferenceForAllSmallSizes)
{
  for (size_t m = 1; m <= 20; m++)
    for (size_t n = 1; n <= 20; n++)
      for (size_t k = 1; k <= 20; k++)
        check (m, n, k);
}

TEST_P (SkinnyProducts, MatchTheReferenceForAllWidthsOfARow)
{
  for (size_t width = 1; width <= 140; width++)
    {
      check (7, width, 33);
      check (33, 7, width);
      check (width, 27, 5);
    }
}

// The operands are large enough to be packed. Some have rows and columns that do not fill a tile.
TEST_P (SkinnyProducts, MatchTheReferenceForLargeMatrices)
{
  for (size_t m : { 8, 13 })
    check (m, 1536, 1536);
  for (size_t k : { 8, 32 })
    for (size_t n : { 8192, 8197 })
      for (size_t m : { 5, 101 })
        check (m, n, k);
  check (11, 1601, 1403);
  check (32, 4097, 515);
}

// A row with an infinity must make only its own products infinite or NaN.
TEST_P (SkinnyProducts, AnInfinityStaysInItsRow)
{
  for (size_t k : { 9, 17, 31, 33 })
    {
      const size_t m = 5, n = 7, row = 2;
      std::vector<float> a = random_floats (m * k), b = random_floats (n * k), c (m * n);
      TpsGemm gemm = make_gemm (2, m, n, k, a, b, c);

      for (size_t l = 0; l < k; l++)
        a[row * k + l] = INFINITY;
      run (gemm);
      for (size_t i = 0; i < m * n; i++)
        ASSERT_EQ (std::isfinite (c[i]), i / n != row) << i << " of k " << k;
    }
}

INSTANTIATE_TEST_SUITE_P (
    Widths, SkinnyProducts,
    testing::Values (Width { "of8", &tps_skinny_products_of_8, true },
                     Width { "of16", &tps_skinny_products_of_16, has_avx512 () }),
    [] (const testing::TestParamInfo<Width> &width) { return width.param.name; });

} // namespace
