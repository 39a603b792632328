/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/hybrid_model.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/trainer/ddp_rpc/scatter.h"

namespace {

using oracle::vectors;
using oracle::worst_difference;

constexpr gint64 ROWS = 7;
constexpr double TOLERANCE = 2e-6; /* OpenBLAS and PyTorch add in different orders */

class HybridModel : public testing::Test
{
protected:
  void
  SetUp () override
  {
    model = create ("@a{sv} {}", nullptr);
    ASSERT_NE (model, nullptr);
    values.resize (model->n_parameters);
    gradients.resize (model->n_parameters);
    for (guint i = 0; i < model->n_parameters; i++)
      {
        gint64 count = tps_shape_n_elems (&model->parameters[i].shape);

        values[i] = scatter (count, i, PARAMETER_BOUND);
        gradients[i].resize (static_cast<size_t> (count));
        model->parameters[i].value = values[i].data ();
        model->parameters[i].gradient = gradients[i].data ();
      }
  }

  void
  TearDown () override
  {
    model->klass->free (model);
  }

  static TpsModel *
  create (const char *arguments, GError **error)
  {
    g_autoptr (GVariant) config = g_variant_ref_sink (g_variant_new_parsed (arguments));

    return tps_model_class_find ("HybridModel", nullptr)->create (config, nullptr, error);
  }

  static TpsTensorView
  rows_view (const std::vector<float> &data)
  {
    return { { TPS_DTYPE_FLOAT32,
               2,
               { static_cast<gint64> (data.size ()) / TPS_HYBRID_MODEL_INPUTS,
                 TPS_HYBRID_MODEL_INPUTS } },
             data.data () };
  }

  std::vector<float>
  forward (const std::vector<float> &input)
  {
    TpsTensorView output {};
    EXPECT_TRUE (model->klass->forward (model, rows_view (input), &output, nullptr));
    const float *data = static_cast<const float *> (output.data);

    return std::vector<float> (data, data + tps_shape_n_elems (&output.shape));
  }

  void
  backward (const std::vector<float> &output_gradient)
  {
    model->klass->backward (
        model, output_gradient.data (),
        [] (gpointer user_data, guint index) {
          static_cast<HybridModel *> (user_data)->events.push_back (std::to_string (index));
        },
        this);
  }

  static void
  input_ready (gpointer user_data, const gfloat *gradient, gsize rows)
  {
    HybridModel *self = static_cast<HybridModel *> (user_data);

    self->events.push_back ("input");
    self->input_gradient.assign (gradient, gradient + rows * TPS_HYBRID_MODEL_INPUTS);
  }

  TpsModel *model = nullptr;
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::string> events;
  std::vector<float> input_gradient;
};

TEST_F (HybridModel, MatchesPyTorch)
{
  std::vector<float> input = scatter (ROWS * TPS_HYBRID_MODEL_INPUTS, SCATTER_INPUT, 1.5);

  tps_hybrid_model_watch_input (model, input_ready, this);
  EXPECT_LT (worst_difference (forward (input), vectors ().floats ("hybrid_model/output")),
             TOLERANCE);
  backward (scatter (ROWS * TPS_HYBRID_MODEL_OUTPUTS, SCATTER_OUTPUT_GRADIENT, 1.0));
  EXPECT_LT (
      worst_difference (sample (input_gradient.data (),
                                static_cast<int64_t> (input_gradient.size ()), SAMPLE_OF_INPUTS),
                        vectors ().floats ("hybrid_model/input.grad")),
      TOLERANCE);
  for (guint i = 0; i < model->n_parameters; i++)
    {
      std::string name = std::string ("hybrid_model/") + model->parameters[i].name + ".grad";

      EXPECT_LT (worst_difference (sample (gradients[i].data (),
                                           static_cast<int64_t> (gradients[i].size ()),
                                           SAMPLE_OF_PARAMETERS),
                                   vectors ().floats (name)),
                 TOLERANCE)
          << name;
    }
}

TEST_F (HybridModel, HandsOutTheInputGradientBeforeAnyOfAParameter)
{
  std::vector<float> input (3 * TPS_HYBRID_MODEL_INPUTS, 0.5f);

  tps_hybrid_model_watch_input (model, input_ready, this);
  forward (input);
  backward (std::vector<float> (3 * TPS_HYBRID_MODEL_OUTPUTS, 1.0f));
  EXPECT_EQ (events, (std::vector<std::string> { "input", "9", "8", "7", "6", "5", "4", "3", "2",
                                                 "1", "0" }));
  events.clear ();
  tps_hybrid_model_watch_input (model, nullptr, nullptr);
  backward (std::vector<float> (3 * TPS_HYBRID_MODEL_OUTPUTS, 1.0f));
  EXPECT_EQ (events.size (), 10u) << "each gradient is reported once";
}

TEST_F (HybridModel, RowsDoNotDependOnTheOthersOfTheirBatch)
{
  std::vector<float> input = scatter (40 * TPS_HYBRID_MODEL_INPUTS, SCATTER_INPUT, 1.0);
  std::vector<float> all = forward (input);

  for (gsize rows : { 1u, 2u, 5u, 9u, 16u, 17u, 33u })
    {
      std::vector<float> some = forward (std::vector<float> (
          input.begin (), input.begin () + static_cast<long> (rows * TPS_HYBRID_MODEL_INPUTS)));

      EXPECT_LT (worst_difference (
                     some, std::vector<float> (all.begin (),
                                               all.begin () + static_cast<long> (some.size ()))),
                 TOLERANCE)
          << rows << " rows";
    }
}

TEST_F (HybridModel, ParametersAreNamedAndSizedAsPyTorchs)
{
  std::string text;
  gint64 count = 0;

  for (guint i = 0; i < model->n_parameters; i++)
    {
      g_autofree gchar *shape = tps_shape_to_string (&model->parameters[i].shape);

      text += std::string (model->parameters[i].name) + " " + shape + "\n";
      count += tps_shape_n_elems (&model->parameters[i].shape);
    }
  EXPECT_EQ (text, "0.weight FLOAT32 [256, 512]\n0.bias FLOAT32 [256]\n"
                   "1.weight FLOAT32 [128, 256]\n1.bias FLOAT32 [128]\n"
                   "3.weight FLOAT32 [64, 128]\n3.bias FLOAT32 [64]\n"
                   "4.weight FLOAT32 [32, 64]\n4.bias FLOAT32 [32]\n"
                   "5.weight FLOAT32 [8, 32]\n5.bias FLOAT32 [8]\n");
  EXPECT_EQ (count, 174824);
}

TEST_F (HybridModel, RefusesArgumentsAndBatchesThatDoNotFit)
{
  g_autoptr (GError) error = nullptr;
  g_auto (TpsTensor) input = {}, target = {};

  EXPECT_EQ (create ("{'width': <int64 3>}", &error), nullptr);
  EXPECT_STREQ (error->message, "model HybridModel: unknown argument: width");
  g_clear_error (&error);

  tps_tensor_init_2d (&input, TPS_DTYPE_FLOAT32, 2, 512);
  tps_tensor_init_1d (&target, TPS_DTYPE_INT64, 2);
  gint64 *classes = static_cast<gint64 *> (tps_tensor_data (&target));
  TpsTrainBatch batch = { input, target };

  classes[0] = 0;
  classes[1] = 7;
  EXPECT_TRUE (model->klass->check_batch (model, &batch, &error));
  classes[1] = 8;
  EXPECT_FALSE (model->klass->check_batch (model, &batch, &error));
  EXPECT_STREQ (error->message, "target[1]: 8 is not in [0, 8)");
  g_clear_error (&error);
  batch.input.shape.dims[1] = 511;
  EXPECT_FALSE (model->klass->check_batch (model, &batch, &error));
  EXPECT_STREQ (error->message, "input is FLOAT32 [2, 511], expected FLOAT32 [1 or more, 512]");
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
}

} // namespace
