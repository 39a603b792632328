/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Single layers, losses and optimizer objects against PyTorch. The tolerance is 1e-6, relative
 * above 1. */

#include <cmath>

#include "runtime/trainer/nn/embedding_bag.h"
#include "runtime/trainer/nn/linear.h"
#include "tests/runtime/trainer/nn/sgd.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/trainer/nn/model_fixture.h"

namespace {

using oracle::vectors;
using oracle::worst_difference;

class LayersOracle : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsDevice *device = tps_device_find ("cpu", nullptr);
    stream = device->ops->stream_new (device, nullptr);
  }
  void
  TearDown () override
  {
    stream->device->ops->stream_free (stream);
  }

  TpsStream *stream;
};

TpsTensorView
view_of (const oracle::Tensor &tensor)
{
  TpsTensorView view {};

  view.shape.dtype = tensor.ints.empty () ? TPS_DTYPE_FLOAT32 : TPS_DTYPE_INT64;
  view.shape.n_dims = (guint) tensor.dims.size ();
  for (size_t i = 0; i < tensor.dims.size (); i++)
    view.shape.dims[i] = tensor.dims[i];
  view.data = tensor.ints.empty () ? (const void *) tensor.floats.data () : tensor.ints.data ();
  return view;
}

TEST_F (LayersOracle, LinearForwardAndBackward)
{
  const oracle::Tensor &input = vectors ().get ("linear/input");
  std::vector<float> weight = vectors ().floats ("linear/weight"),
                     bias = vectors ().floats ("linear/bias");
  const std::vector<float> &upstream = vectors ().floats ("linear/output.grad");
  std::vector<float> weight_gradient (weight.size ()), bias_gradient (bias.size ());
  std::vector<float> output (upstream.size ()), input_gradient (input.floats.size ());
  TpsParameter parameters[2] = {};
  size_t batch = input.dims[0];

  parameters[0].value = weight.data ();
  parameters[0].gradient = weight_gradient.data ();
  parameters[1].value = bias.data ();
  parameters[1].gradient = bias_gradient.data ();
  TpsLinear linear = { (gsize) input.dims[1], bias.size (), &parameters[0], &parameters[1] };
  tps_linear_forward (&linear, stream, input.floats.data (), output.data (), batch);
  tps_linear_backward_bias (&linear, stream, upstream.data (), batch);
  tps_linear_backward_weight (&linear, stream, input.floats.data (), upstream.data (), batch);
  tps_linear_backward_input (&linear, stream, upstream.data (), input_gradient.data (), batch);
  EXPECT_LT (worst_difference (output, vectors ().floats ("linear/output")), 1e-6);
  EXPECT_LT (worst_difference (bias_gradient, vectors ().floats ("linear/bias.grad")), 1e-6);
  EXPECT_LT (worst_difference (weight_gradient, vectors ().floats ("linear/weight.grad")), 1e-6);
  EXPECT_LT (worst_difference (input_gradient, vectors ().floats ("linear/input.grad")), 1e-6);
}

TEST_F (LayersOracle, EmptyBagsGiveZerosAndNoGradient)
{
  std::vector<float> table (12, 1), output (6, 9), upstream (6, 1);
  TpsParameter parameter = {};
  TpsEmbeddingBag bag = { 4, 3, TPS_POOLING_MEAN, &parameter, {}, 0 };
  TpsTensorView input = { { TPS_DTYPE_INT64, 2, { 2, 0 } }, nullptr };

  parameter.value = table.data ();
  parameter.is_sparse = TRUE;
  parameter.shape = { TPS_DTYPE_FLOAT32, 2, { 4, 3 } };
  EXPECT_TRUE (tps_embedding_bag_reserve (&bag, stream, input, nullptr));
  tps_embedding_bag_forward (&bag, stream, input, output.data ());
  EXPECT_EQ (output, std::vector<float> (6));
  tps_embedding_bag_backward (&bag, stream, input, upstream.data ());
  EXPECT_EQ (parameter.sparse_gradient.kind, TPS_GRADIENT_SPARSE);
  EXPECT_EQ (parameter.sparse_gradient.indices.shape.dims[0], 0);
  EXPECT_EQ (parameter.sparse_gradient.values.shape.dims[0], 0);
  tps_embedding_bag_clear (&bag);
}

TEST_F (LayersOracle, CriterionsMatchPyTorch)
{
  const struct
  {
    const char *criterion, *name;
  } cases[] = { { "cel", "cross_entropy" }, { "l1", "l1" } };

  for (const auto &test : cases)
    {
      std::string name = test.name;
      const oracle::Tensor &input = vectors ().get (name + "/input");
      std::vector<float> gradient (input.floats.size ());
      double loss = NAN;
      tps_criterion_find (test.criterion, nullptr)
          ->forward_backward (stream, view_of (input), view_of (vectors ().get (name + "/target")),
                              &loss, gradient.data ());

      EXPECT_NEAR (loss, (double) vectors ().floats (name + "/loss")[0], 1e-6);
      EXPECT_LT (worst_difference (gradient, vectors ().floats (name + "/input.grad")), 1e-6);
    }
}

TEST_F (LayersOracle, SgdKeepsVelocitiesAndMatchesPyTorch)
{
  for (std::string name : { "sgd_plain", "sgd_momentum", "sgd_decay", "sgd_momentum_decay" })
    {
      const oracle::Tensor &initial = vectors ().get (name + "/initial");
      const std::vector<float> &f = vectors ().floats (name + "/factors");
      TpsSgdFactors factors = { f[0], f[1], f[2] };
      g_autoptr (TpsSgd) sgd = tps_sgd_new (stream, &factors, 2, nullptr);
      std::vector<float> values = initial.floats;
      TpsParameter parameter = {};

      parameter.shape = view_of (initial).shape;
      parameter.value = values.data ();
      for (int step = 0; step < 3; step++)
        {
          std::string prefix = name + "/" + std::to_string (step);

          tps_sgd_step (sgd, 1, &parameter, vectors ().floats (prefix + "/grad").data (), nullptr);
          EXPECT_LT (worst_difference (values, vectors ().floats (prefix + "/value")), 1e-6)
              << prefix;
        }
    }
}

TEST_F (LayersOracle, SgdRefusesFactorsThatMakeNoSense)
{
  const struct
  {
    TpsSgdFactors factors;
    const char *message;
  } cases[] = {
    { { NAN, 0, 0 }, "SGD: learning_rate: nan, expected a finite number from 0 up" },
    { { 0.1, -1, 0 }, "SGD: momentum: -1, expected a finite number from 0 up" },
    { { 0.1, 0, INFINITY }, "SGD: weight_decay: inf, expected a finite number from 0 up" },
  };

  for (const auto &test : cases)
    {
      g_autoptr (GError) error = nullptr;

      EXPECT_EQ (tps_sgd_new (stream, &test.factors, 1, &error), nullptr);
      EXPECT_STREQ (error->message, test.message);
    }
}

} // namespace
