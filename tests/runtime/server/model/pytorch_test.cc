/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Three trainers and four updates. Layer, loss, mean and optimizer together must agree with
 * PyTorch. */

#include <gtest/gtest.h>

#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/linear_model.h"
#include "runtime/server/model/trained_model.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/server/model/models.h"

namespace updating_test {
namespace {

constexpr guint N_TRAINERS = 3;
constexpr guint N_STEPS = 4;
constexpr double TOLERANCE = 1e-6;

/* Returns the gradients of the layer for one input, with targets of zero. */
Values
gradients_of (TpsModel *layer, const TpsModelVersion *version, const oracle::Tensor &input,
              double *loss)
{
  Values gradients;
  TpsTensor x = to_tensor (input.dims, input.floats);
  TpsTensor target = {}, output_gradient = {};

  for (guint i = 0; i < layer->n_parameters; i++)
    gradients.emplace_back (static_cast<size_t> (tps_shape_n_elems (&layer->parameters[i].shape)));
  for (guint i = 0; i < layer->n_parameters; i++)
    {
      layer->parameters[i].value = static_cast<gfloat *> (
          tps_tensor_data (&version->parameters[i].tensor));
      layer->parameters[i].gradient = gradients[i].data ();
    }
  TpsTensorView output {};
  EXPECT_TRUE (layer->klass->forward (layer, tps_tensor_view (&x), &output, nullptr));
  tps_tensor_init_zeroed (&target, &output.shape);
  tps_tensor_init (&output_gradient, &output.shape);
  tps_criterion_find ("l1", nullptr)
      ->forward_backward (layer->stream, output, tps_tensor_view (&target), loss,
                          static_cast<gfloat *> (tps_tensor_data (&output_gradient)));
  layer->klass->backward (
      layer, static_cast<gfloat *> (tps_tensor_data (&output_gradient)), [] (gpointer, guint) {},
      nullptr);
  tps_tensor_clear (&x);
  tps_tensor_clear (&target);
  tps_tensor_clear (&output_gradient);
  return gradients;
}

TEST (PyTorch, threeTrainersAndFourUpdatesAgree)
{
  const oracle::Vectors &torch = oracle::vectors ();
  const std::string name = "batch_update/";
  GVariantDict config;
  TpsOptimizerSpec sgd = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.001);

  g_variant_dict_init (&config, nullptr);
  g_variant_dict_insert (&config, "in_features", "x", (gint64) 10);
  g_variant_dict_insert (&config, "out_features", "x", (gint64) 3);
  g_autoptr (GVariant) values = g_variant_ref_sink (g_variant_dict_end (&config));
  TpsModel *layer = tps_linear_model_class.create (values, nullptr, nullptr);
  ASSERT_NE (layer, nullptr);
  sgd.momentum = 0.9;
  Shapes shapes = { { 3, 10 }, { 3 } };
  auto parameters = to_parameters (
      shapes, { torch.floats (name + "weight"), torch.floats (name + "bias") });
  g_autoptr (TpsTrainedModel) model = tps_trained_model_new (
      parameters.data (), 2, &sgd, tps_buffer_pool_get_default (), nullptr);

  for (guint step = 0; step < N_STEPS; step++)
    {
      std::string at = name + "step" + std::to_string (step) + "/";
      std::vector<std::vector<TpsTensor>> gradients;
      std::vector<const TpsTensor *> lists;
      TpsModelUpdate update;

      for (guint trainer = 0; trainer < N_TRAINERS; trainer++)
        {
          std::string mine = at + "trainer" + std::to_string (trainer) + "/";
          double loss;

          gradients.push_back (to_tensors (
              shapes, gradients_of (layer, model->newest, torch.get (mine + "input"), &loss)));
          EXPECT_NEAR (loss, torch.floats (mine + "loss")[0], TOLERANCE);
        }
      for (const auto &list : gradients)
        lists.push_back (list.data ());
      ASSERT_TRUE (tps_model_update_begin (&update, model, lists.data (), N_TRAINERS, 1, nullptr));
      tps_model_update_run (&update, 0, update.n_blocks);
      tps_model_update_end (&update);
      Values ours = to_values (model->newest);
      EXPECT_LE (oracle::worst_difference (ours[0], torch.floats (at + "weight")), TOLERANCE);
      EXPECT_LE (oracle::worst_difference (ours[1], torch.floats (at + "bias")), TOLERANCE);
      for (auto &list : gradients)
        for (auto &tensor : list)
          tps_tensor_clear (&tensor);
    }
  for (auto &parameter : parameters)
    tps_named_tensor_clear (&parameter);
  tps_linear_model_class.free (layer);
}

} // namespace
} // namespace updating_test
