/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests products, bias, activations, losses and optimizers. */

#include <cmath>

#include "runtime/trainer/dense/blas.h"
#include "tests/conformance/device_test.h"
#include "tests/conformance/reference.h"
#include "tests/oracle/vectors.h"

namespace {

using oracle::vectors;
using oracle::worst_difference;

class Layers : public DeviceTest
{
protected:
  // The thread sanitizer cannot follow the synchronisation of the library's own threads.
  static void
  SetUpTestSuite ()
  {
    tps_blas_set_num_threads (1);
  }
};

// The error bound is 1e-6 per term.
TEST_P (Layers, GemmMatchesTheReferenceForAllTranspositions)
{
  const size_t sizes[][3] = { { 1, 1, 1 },      { 3, 5, 7 }, { 17, 33, 65 }, { 32, 300, 300 },
                              { 65, 300, 280 }, { 5, 1, 9 }, { 0, 4, 4 },    { 4, 0, 4 },
                              { 4, 4, 0 },      { 1, 4, 0 } };

  for (const auto &size : sizes)
    for (int flags = 0; flags < 16; flags++)
      {
        std::vector<float> a = random_floats (size[0] * size[2]),
                           b = random_floats (size[2] * size[1]);
        std::vector<float> c = random_floats (size[0] * size[1]);
        DeviceArray<float> device_a (stream, a), device_b (stream, b), device_c (stream, c);
        TpsGemm gemm = { .transpose_a = (flags & 1) != 0,
                         .transpose_b = (flags & 2) != 0,
                         .m = size[0],
                         .n = size[1],
                         .k = size[2],
                         .alpha = (flags & 4) != 0 ? 1.0f : -0.5f,
                         .beta = (flags & 8) != 0 ? 0.0f : 2.0f,
                         .a = a.data (),
                         .b = b.data (),
                         .c = nullptr };

        reference::gemm (gemm, c.data ());
        gemm.a = device_a.data ();
        gemm.b = device_b.data ();
        gemm.c = device_c.data ();
        dense_ops->gemm (stream, &gemm);
        ASSERT_LT (worst_difference (device_c.read (), c), 1e-6 * (double) (size[2] + 2))
            << size[0] << "x" << size[1] << "x" << size[2] << " flags " << flags;
      }
}

TEST_P (Layers, GemmOfFewRowsMatchesTheReference)
{
  for (size_t few = 1; few <= 33; few++)
    for (size_t wide : { 1, 3, 4, 15, 16, 33, 64, 131 })
      for (int flags : { 0, 1, 2 })
        {
          size_t other = wide % 2 == 0 ? wide + 37 : wide;
          bool transpose_a = flags == 1;
          TpsGemm gemm = { .transpose_a = transpose_a,
                           .transpose_b = flags == 2,
                           .m = transpose_a ? wide : few,
                           .n = other,
                           .k = transpose_a ? few : wide,
                           .alpha = 1 };
          std::vector<float> a = random_floats (gemm.m * gemm.k),
                             b = random_floats (gemm.k * gemm.n), c (gemm.m * gemm.n);
          DeviceArray<float> device_a (stream, a), device_b (stream, b);
          DeviceArray<float> device_c (stream, std::vector<float> (c.size (), NAN));

          gemm.a = a.data ();
          gemm.b = b.data ();
          reference::gemm (gemm, c.data ());
          gemm.a = device_a.data ();
          gemm.b = device_b.data ();
          gemm.c = device_c.data ();
          dense_ops->gemm (stream, &gemm);
          ASSERT_LT (worst_difference (device_c.read (), c), 1e-6 * (double) (gemm.k + 2))
              << gemm.m << "x" << gemm.n << "x" << gemm.k << " flags " << flags;
        }
}

TEST_P (Layers, GemmDoesNotReadTheResultWhereBetaIsZero)
{
  DeviceArray<float> a (stream, std::vector<float> { 2 }), b (stream, std::vector<float> { 3 });
  DeviceArray<float> c (stream, std::vector<float> { NAN });
  TpsGemm gemm = {
    .m = 1, .n = 1, .k = 1, .alpha = 1, .a = a.data (), .b = b.data (), .c = c.data ()
  };

  dense_ops->gemm (stream, &gemm);
  EXPECT_EQ (c.read ()[0], 6);
}

TEST_P (Layers, BiasIsAddedToEachRowAndColumnsAreSummedAsATree)
{
  for (size_t rows : { 0, 1, 5, 32, 33, 64, 65, 1024, 1025, 1100 })
    for (size_t columns : { 0, 1, 7, 64, 129 })
      {
        std::vector<float> values = random_floats (rows * columns), bias = random_floats (columns);
        std::vector<float> sums (columns);
        DeviceArray<float> device_values (stream, values), device_bias (stream, bias);
        DeviceArray<float> device_sums (stream, random_floats (columns));

        dense_ops->column_sum (stream, device_sums.data (), device_values.data (), rows, columns);
        dense_ops->bias_add (stream, device_values.data (), device_bias.data (), rows, columns);
        for (size_t column = 0; rows > 0 && column < columns; column++)
          {
            std::vector<float> terms;

            for (size_t row = 0; row < rows; row++)
              terms.push_back (values[row * columns + column]);
            sums[column] += reference::tree_sum (terms);
          }
        for (size_t i = 0; i < values.size (); i++)
          values[i] += bias[i % columns];
        ASSERT_TRUE (same_bits (device_values.read (), values));
        ASSERT_TRUE (same_bits (device_sums.read (), sums));
      }
}

TEST_P (Layers, ReluKeepsPositiveNumbersAndNaNs)
{
  for (size_t n : { 8, 7 })
    {
      std::vector<float> x = { -1, 0, -0.0f, 2, INFINITY, -INFINITY, NAN, 1e-45f };
      std::vector<float> wanted = { 0, 0, 0, 2, INFINITY, 0, NAN, 1e-45f };
      std::vector<float> gradient (n, 3), wanted_gradient = { 0, 0, 0, 3, 3, 0, 0, 3 };

      for (std::vector<float> *values : { &x, &wanted, &wanted_gradient })
        values->resize (n);
      DeviceArray<float> input (stream, x), output (stream, n), upstream (stream, gradient);
      dense_ops->relu (stream, output.data (), input.data (), n);
      EXPECT_TRUE (same_bits (output.read (), wanted));
      dense_ops->relu_backward (stream, upstream.data (), upstream.data (), output.data (), n);
      EXPECT_EQ (upstream.read (), wanted_gradient);
    }
}

TEST_P (Layers, ReluAndSoftmaxMatchPyTorch)
{
  for (std::string name : { "relu", "softmax" })
    {
      const oracle::Tensor &x = vectors ().get (name + "/input0");
      size_t rows = x.dims[0], columns = x.dims[1], n = rows * columns;
      DeviceArray<float> input (stream, x.floats), output (stream, n), input_gradient (stream, n);
      DeviceArray<float> output_gradient (stream, vectors ().floats (name + "/output.grad"));

      if (name == "relu")
        {
          dense_ops->relu (stream, output.data (), input.data (), n);
          dense_ops->relu_backward (stream, input_gradient.data (), output_gradient.data (),
                                    output.data (), n);
        }
      else
        {
          dense_ops->softmax (stream, output.data (), input.data (), rows, columns);
          dense_ops->softmax_backward (stream, input_gradient.data (), output_gradient.data (),
                                       output.data (), rows, columns);
        }
      EXPECT_LT (worst_difference (output.read (), vectors ().floats (name + "/output")), 1e-6)
          << name;
      EXPECT_LT (
          worst_difference (input_gradient.read (), vectors ().floats (name + "/input0.grad")),
          1e-6)
          << name;
    }
}

TEST_P (Layers, SoftmaxOfLargeNumbersDoesNotOverflow)
{
  DeviceArray<float> values (stream, std::vector<float> { 1000, 1000, -1000, 500, 500, 500 });

  dense_ops->softmax (stream, values.data (), values.data (), 2, 3);
  EXPECT_LT (worst_difference (values.read (), { 0.5f, 0.5f, 0, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f }),
             1e-6);
}

TEST_P (Layers, CrossEntropyMatchesPyTorch)
{
  const oracle::Tensor &x = vectors ().get ("cross_entropy/input");
  DeviceArray<float> input (stream, x.floats), gradient (stream, x.floats.size ());
  DeviceArray<int64_t> target (stream, vectors ().ints ("cross_entropy/target"));
  DeviceArray<double> loss (stream, 1);

  dense_ops->cross_entropy (stream, loss.data (), gradient.data (), input.data (), target.data (),
                            x.dims[0], x.dims[1]);
  EXPECT_NEAR (loss.read ()[0], vectors ().floats ("cross_entropy/loss")[0], 1e-6);
  EXPECT_LT (worst_difference (gradient.read (), vectors ().floats ("cross_entropy/input.grad")),
             1e-6);
  dense_ops->cross_entropy (stream, loss.data (), nullptr, input.data (), target.data (), x.dims[0],
                            x.dims[1]);
  EXPECT_NEAR (loss.read ()[0], vectors ().floats ("cross_entropy/loss")[0], 1e-6);
  dense_ops->cross_entropy (stream, nullptr, input.data (), input.data (), target.data (),
                            x.dims[0], x.dims[1]);
  EXPECT_TRUE (same_bits (input.read (), gradient.read ())) << "in place";
}

TEST_P (Layers, L1LossMatchesPyTorch)
{
  const oracle::Tensor &x = vectors ().get ("l1/input");
  DeviceArray<float> input (stream, x.floats), gradient (stream, x.floats.size ());
  DeviceArray<float> target (stream, vectors ().floats ("l1/target"));
  DeviceArray<double> loss (stream, 1);

  dense_ops->l1_loss (stream, loss.data (), gradient.data (), input.data (), target.data (),
                      x.floats.size ());
  EXPECT_NEAR (loss.read ()[0], vectors ().floats ("l1/loss")[0], 1e-6);
  EXPECT_LT (worst_difference (gradient.read (), vectors ().floats ("l1/input.grad")), 1e-7);
}

TEST_P (Layers, L1LossOfLongArraysHasTheFormulasGradientAlsoInPlace)
{
  for (size_t n : { 1, 31, 4096, 4097, 70001, 1024 * 1025 + 1 })
    for (bool has_loss : { true, false })
      {
        std::vector<float> x = random_floats (n), y = random_floats (n), wanted (n);
        float step = 1 / (float) n;
        double sum = 0;
        if (n > 100)
          y[77] = x[77];

        for (size_t i = 0; i < n; i++)
          {
            float d = x[i] - y[i];

            sum += (double) std::fabs (d);
            wanted[i] = d > 0 ? step : d < 0 ? -step : 0 * d;
          }
        DeviceArray<float> input (stream, x), target (stream, y);
        DeviceArray<double> loss (stream, 1);
        dense_ops->l1_loss (stream, has_loss ? loss.data () : nullptr, input.data (), input.data (),
                            target.data (), n);
        EXPECT_TRUE (same_bits (input.read (), wanted)) << n;
        if (has_loss)
          {
            EXPECT_NEAR (loss.read ()[0], sum / (double) n, 1e-12) << n;
          }
      }
}

TEST_P (Layers, LossesOfNothingAreZero)
{
  DeviceArray<double> loss (stream, std::vector<double> { 5 });

  dense_ops->cross_entropy (stream, loss.data (), nullptr, nullptr, nullptr, 0, 3);
  EXPECT_EQ (loss.read ()[0], 0);
  ops->fill (stream, TPS_DTYPE_FLOAT64, loss.data (), 5, 1);
  dense_ops->l1_loss (stream, loss.data (), nullptr, nullptr, nullptr, 0);
  EXPECT_EQ (loss.read ()[0], 0);
}

// The result must have the bits of the formula, and be within 1e-6 of torch.optim.SGD.
TEST_P (Layers, SgdMatchesTheFormulaAndPyTorch)
{
  for (std::string name : { "sgd_plain", "sgd_momentum", "sgd_decay", "sgd_momentum_decay" })
    {
      std::vector<float> f = vectors ().floats (name + "/factors");
      std::vector<float> wanted = vectors ().floats (name + "/initial"),
                         wanted_velocity (wanted.size ());
      TpsSgdFactors factors = { f[0], f[1], f[2] };
      DeviceArray<float> values (stream, wanted), velocity (stream, wanted_velocity);

      for (int step = 0; step < 3; step++)
        {
          const std::vector<float> &gradient = vectors ().floats (name + "/" + std::to_string (step)
                                                                  + "/grad");
          DeviceArray<float> device_gradient (stream, gradient);

          dense_ops->sgd (stream, &factors, values.data (), device_gradient.data (),
                          f[1] != 0 ? velocity.data () : nullptr, wanted.size ());
          for (size_t i = 0; i < wanted.size (); i++)
            {
              float d = gradient[i];

              if (f[2] != 0)
                d = gradient[i] + f[2] * wanted[i];
              if (f[1] != 0)
                d = wanted_velocity[i] = f[1] * wanted_velocity[i] + d;
              wanted[i] -= f[0] * d;
            }
          ASSERT_TRUE (same_bits (values.read (), wanted)) << name;
          EXPECT_LT (
              worst_difference (values.read (),
                                vectors ().floats (name + "/" + std::to_string (step) + "/value")),
              1e-6);
        }
    }
}

TEST_P (Layers, SgdOnRowsIsSgdOnThoseRowsAlone)
{
  TpsSgdFactors factors = { 0.05, 0.9, 0.01 };
  std::vector<float> values = random_floats (9 * 5), velocity = random_floats (9 * 5);
  std::vector<float> gradient = random_floats (3 * 5), whole_gradient (9 * 5);
  std::vector<int64_t> ids = { 7, 0, 3 };
  DeviceArray<float> rows (stream, values), row_velocity (stream, velocity),
      row_gradient (stream, gradient);
  DeviceArray<float> all (stream, values), all_velocity (stream, velocity);
  DeviceArray<int64_t> indices (stream, ids);

  for (size_t i = 0; i < ids.size (); i++)
    std::copy_n (gradient.begin () + i * 5, 5, whole_gradient.begin () + ids[i] * 5);
  DeviceArray<float> all_gradient (stream, whole_gradient);
  dense_ops->sgd_rows (stream, &factors, rows.data (), indices.data (), row_gradient.data (),
                       row_velocity.data (), 3, 5);
  dense_ops->sgd (stream, &factors, all.data (), all_gradient.data (), all_velocity.data (), 9 * 5);
  std::vector<float> got = rows.read (), wanted = all.read ();
  for (int64_t row = 0; row < 9; row++)
    {
      bool is_touched = std::find (ids.begin (), ids.end (), row) != ids.end ();

      for (size_t d = 0; d < 5; d++)
        EXPECT_EQ (got[row * 5 + d], is_touched ? wanted[row * 5 + d] : values[row * 5 + d]);
    }
}

INSTANTIATE_FOR_ALL_DEVICES (Layers);

} // namespace
