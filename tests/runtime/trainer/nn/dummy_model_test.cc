/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* DummyModel: its refusals, its guarantees, its gradients against finite differences, and its
 * results against PyTorch. The tolerance against PyTorch is 1e-5, relative above 1. */

#include "runtime/base/error.h"
#include "runtime/trainer/nn/dummy_model.h"
#include "tests/runtime/trainer/nn/sgd.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/trainer/nn/model_fixture.h"

namespace {

using nn_test::BoundModel;
using nn_test::DummySizes;
using oracle::vectors;
using oracle::worst_difference;

constexpr double kTolerance = 1e-5;

TEST (DummyModel, ParametersAreThoseOfPyTorchInItsOrder)
{
  BoundModel bound ({ 20, 8, 8, 2, true });
  std::vector<std::string> texts;

  for (guint i = 0; i < bound.model->n_parameters; i++)
    {
      g_autofree gchar *shape = tps_shape_to_string (&bound.parameter (i).shape);
      texts.push_back (std::string (bound.parameter (i).name) + " " + shape
                       + (bound.parameter (i).is_sparse ? " sparse" : ""));
    }
  EXPECT_EQ (texts, (std::vector<std::string> {
                        "embedding.weight FLOAT32 [20, 8] sparse", "dense.0.weight FLOAT32 [8, 8]",
                        "dense.0.bias FLOAT32 [8]", "dense.1.weight FLOAT32 [8, 8]",
                        "dense.1.bias FLOAT32 [8]" }));
}

TEST (DummyModel, RefusesBatchesThatDoNotFit)
{
  const struct
  {
    std::vector<int64_t> input, dims, target;
    const char *message;
  } cases[] = {
    { { 0, 19, 3, 4 }, { 2, 2 }, { 0, 7 }, nullptr },
    { { 0, 20, 3, 4 },
      { 2, 2 },
      { 0, 7 },
      "batch: input element 1 is 20, outside [0, num_embeddings = 20)" },
    { { 0, 19, 3, -1 },
      { 2, 2 },
      { 0, 7 },
      "batch: input element 3 is -1, outside [0, num_embeddings = 20)" },
    { { 0, 19, 3, 4 },
      { 2, 2 },
      { 0, 8 },
      "batch: target element 1 is 8, outside [0, dense_output_size = 8)" },
    { { 0, 19, 3, 4 }, { 2, 2 }, { 0 }, "batch: target is INT64 [1], expected INT64 [2]" },
    { { 0, 19, 3, 4 },
      { 4 },
      { 0 },
      "batch: input is INT64 [4], expected INT64 [batch, length] with at least one sample" },
    { {},
      { 0, 2 },
      {},
      "batch: input is INT64 [0, 2], expected INT64 [batch, length] with at least one sample" },
  };
  BoundModel bound ({ 20, 8, 8, 2, true });

  for (const auto &test : cases)
    {
      GError *error = nullptr;
      TpsTrainBatch batch = { nn_test::make_tensor (test.input, test.dims),
                              nn_test::make_tensor (test.target,
                                                    { (int64_t) test.target.size () }) };

      EXPECT_EQ (bound.model->klass->check_batch (bound.model, &batch, &error),
                 test.message == nullptr);
      EXPECT_STREQ (error != nullptr ? error->message : nullptr, test.message);
      g_clear_error (&error);
      tps_train_batch_clear (&batch);
    }
}

TEST (DummyModel, GradientsBecomeReadyFromTheLastLayerToTheEmbedding)
{
  BoundModel bound ({ 20, 8, 8, 3, true });

  bound.model->klass->init_parameters (bound.model, 1);
  bound.step ("cel", { 1, 2, 3, 1 }, { 2, 2 }, { 0, 1 });
  EXPECT_EQ (bound.ready, (std::vector<guint> { 6, 5, 4, 3, 2, 1, 0 }));
}

TEST (DummyModel, SparseGradientsAreCoalescedWithWeightOne)
{
  BoundModel bound ({ 20, 8, 8, 1, true });

  bound.model->klass->init_parameters (bound.model, 1);
  bound.step ("cel", { 9, 2, 3, 9, 2, 9 }, { 2, 3 }, { 0, 1 });
  const TpsGradient &gradient = bound.parameter (0).sparse_gradient;
  const gint64 *ids = (const gint64 *) tps_tensor_data (&gradient.indices);
  EXPECT_EQ (gradient.kind, TPS_GRADIENT_SPARSE);
  EXPECT_EQ (gradient.weight, 1);
  EXPECT_EQ (gradient.rows, 20);
  EXPECT_EQ (std::vector<int64_t> (ids, ids + gradient.indices.shape.dims[0]),
             (std::vector<int64_t> { 2, 3, 9 }));
  EXPECT_TRUE (tps_gradient_check (&gradient, nullptr));
}

TEST (DummyModel, SparseAndDenseGradientsAreTheSame)
{
  BoundModel sparse ({ 20, 8, 8, 2, true }), dense ({ 20, 8, 8, 2, false });
  std::vector<int64_t> input;

  for (int64_t i = 0; i < 4 * 100; i++)
    input.push_back (i * i % 17); /* many equal ids, whose rows are summed by counting */
  sparse.model->klass->init_parameters (sparse.model, 3);
  dense.model->klass->init_parameters (dense.model, 3);
  EXPECT_EQ (sparse.step ("cel", input, { 4, 100 }, { 0, 1, 2, 7 }),
             dense.step ("cel", input, { 4, 100 }, { 0, 1, 2, 7 }));
  for (guint i = 0; i < sparse.model->n_parameters; i++)
    EXPECT_LT (worst_difference (sparse.gradient (i), dense.gradient (i)), 1e-7);
}

TEST (DummyModel, ASmallerBatchAfterALargerOneGivesItsOwnResult)
{
  BoundModel bound ({ 20, 8, 8, 2, true }), fresh ({ 20, 8, 8, 2, true });

  bound.model->klass->init_parameters (bound.model, 3);
  fresh.model->klass->init_parameters (fresh.model, 3);
  bound.step ("cel", { 1, 2, 3, 4, 5, 6 }, { 3, 2 }, { 0, 1, 2 });
  EXPECT_EQ (bound.step ("cel", { 7, 8, 9 }, { 1, 3 }, { 4 }),
             fresh.step ("cel", { 7, 8, 9 }, { 1, 3 }, { 4 }));
  for (guint i = 0; i < bound.model->n_parameters; i++)
    EXPECT_EQ (bound.gradient (i), fresh.gradient (i));
}

/* -- PyTorch -- */

DummySizes
sizes_of (const std::string &name)
{
  const oracle::Tensor &table = vectors ().get (name + "/initial/embedding.weight");
  int64_t layers = 0;

  while (vectors ().has (name + "/initial/dense." + std::to_string (layers) + ".weight"))
    layers++;
  return { table.dims[0], table.dims[1], vectors ().get (name + "/initial/dense.0.weight").dims[0],
           layers, vectors ().has (name + "/0/embedding.weight.grad.indices") };
}

void
load_initial (const std::string &name, BoundModel &bound)
{
  for (guint i = 0; i < bound.model->n_parameters; i++)
    {
      const std::vector<float> &initial = vectors ().floats (name + "/initial/"
                                                             + bound.parameter (i).name);

      ASSERT_EQ (initial.size (), bound.values (i).size ());
      std::copy (initial.begin (), initial.end (), bound.values (i).begin ());
    }
}

double
step_with (BoundModel &bound, const std::string &prefix)
{
  const oracle::Tensor &input = vectors ().get (prefix + "/input");

  return bound.step ("cel", input.ints, input.dims, vectors ().ints (prefix + "/target"));
}

void
expect_gradient (const std::string &prefix, const BoundModel &bound, guint i,
                 const std::vector<float> &dense)
{
  const TpsParameter &parameter = bound.model->parameters[i];
  std::string name = prefix + "/" + parameter.name + ".grad";

  if (!parameter.is_sparse)
    {
      EXPECT_LT (worst_difference (dense, vectors ().floats (name)), kTolerance) << name;
      return;
    }
  const std::vector<int64_t> &ids = vectors ().ints (name + ".indices");
  const std::vector<float> &rows = vectors ().floats (name + ".values");
  int64_t dim = parameter.shape.dims[1];
  std::vector<float> wanted (dense.size ());
  for (size_t row = 0; row < ids.size (); row++)
    std::copy_n (rows.begin () + row * dim, dim, wanted.begin () + ids[row] * dim);
  EXPECT_LT (worst_difference (dense, wanted), kTolerance) << name;
}

void
expect_final (const std::string &name, BoundModel &bound)
{
  for (guint i = 0; i < bound.model->n_parameters; i++)
    {
      const std::vector<float> &wanted = vectors ().floats (name + "/final/"
                                                            + bound.parameter (i).name);

      EXPECT_LT (worst_difference (bound.values (i), wanted), kTolerance)
          << bound.parameter (i).name;
      EXPECT_GT (worst_difference (
                     vectors ().floats (name + "/initial/" + bound.parameter (i).name), wanted),
                 10 * kTolerance)
          << "three steps must move " << bound.parameter (i).name;
    }
}

class DummyModelOracle : public testing::TestWithParam<std::string>
{
};

TEST_P (DummyModelOracle, ForwardLossGradientsAndThreeStepsMatchPyTorch)
{
  std::string name = GetParam ();
  BoundModel bound (sizes_of (name));
  TpsSgdFactors factors = { vectors ().floats (name + "/lr")[0], 0, 0 };
  g_autoptr (TpsSgd)
      sgd = tps_sgd_new (bound.model->stream, &factors, bound.model->n_parameters, nullptr);

  load_initial (name, bound);
  const oracle::Tensor &input = vectors ().get (name + "/0/input");
  EXPECT_LT (worst_difference (bound.forward (input.ints, input.dims),
                               vectors ().floats (name + "/0/output")),
             kTolerance);
  for (int step = 0; step < 3; step++)
    {
      std::string prefix = name + "/" + std::to_string (step);

      EXPECT_NEAR (step_with (bound, prefix), (double) vectors ().floats (prefix + "/loss")[0],
                   kTolerance);
      for (guint i = 0; i < bound.model->n_parameters; i++)
        {
          TpsParameter &parameter = bound.parameter (i);

          if (step == 0)
            expect_gradient (prefix, bound, i, bound.gradient (i));
          if (parameter.is_sparse)
            tps_sgd_step_rows (sgd, i, &parameter, &parameter.sparse_gradient, nullptr);
          else
            tps_sgd_step (sgd, i, &parameter, parameter.gradient, nullptr);
        }
    }
  expect_final (name, bound);
}

INSTANTIATE_TEST_SUITE_P (Models, DummyModelOracle,
                          testing::Values ("sparse_model", "dense_model", "one_layer_model"));

TEST (DummyModelOracle, TheMeanOfTwoTrainersMatchesPyTorch)
{
  const std::string name = "trainers";
  BoundModel bound (sizes_of (name));
  TpsSgdFactors factors = { vectors ().floats (name + "/lr")[0], 0, 0 };
  g_autoptr (TpsSgd)
      sgd = tps_sgd_new (bound.model->stream, &factors, bound.model->n_parameters, nullptr);

  load_initial (name, bound);
  for (int step = 0; step < 3; step++)
    {
      std::string prefix = name + "/" + std::to_string (step);
      std::vector<std::vector<float>> means;

      step_with (bound, prefix + "/0");
      for (guint i = 0; i < bound.model->n_parameters; i++)
        means.push_back (bound.gradient (i));
      step_with (bound, prefix + "/1");
      for (guint i = 0; i < bound.model->n_parameters; i++)
        {
          std::vector<float> second = bound.gradient (i);

          for (size_t j = 0; j < second.size (); j++)
            means[i][j] = (means[i][j] + second[j]) / 2;
          if (step == 0)
            expect_gradient (prefix, bound, i, means[i]);
          tps_sgd_step (sgd, i, &bound.parameter (i), means[i].data (), nullptr);
        }
    }
  expect_final (name, bound);
}

} // namespace
