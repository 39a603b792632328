// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Compares the model with a plain computation in double precision and its finite differences.

#include "runtime/trainer/nn/dlrm_model.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace {

using Vector = std::vector<double>;

const TpsDlrmShape SHAPE = { 3, 2, 4, { 5 }, { 6, 5 } };
constexpr size_t ROWS = 4, N_VECTORS = 3, DIM = 4;

Vector
apply_layers (const std::vector<Vector> &parameters, size_t first, size_t n_layers,
              bool ends_linear, Vector values)
{
  for (size_t layer = 0; layer < n_layers; layer++)
    {
      const Vector &weight = parameters[first + 2 * layer],
                   &bias = parameters[first + 2 * layer + 1];
      Vector output (bias);

      for (size_t i = 0; i < bias.size (); i++)
        {
          for (size_t j = 0; j < values.size (); j++)
            output[i] += weight[i * values.size () + j] * values[j];
          if (layer + 1 < n_layers || !ends_linear)
            output[i] = std::max (output[i], 0.0);
        }
      values = output;
    }
  return values;
}

// A model with its inputs, all in double precision.
struct Oracle
{
  std::vector<Vector> parameters;
  Vector dense, vectors, labels; // vectors: [rows, tables, dim]

  double
  get_logit (size_t row) const
  {
    Vector bottom = apply_layers (parameters, 0, 2, false,
                                  Vector (dense.begin () + static_cast<long> (3 * row),
                                          dense.begin () + static_cast<long> (3 * row + 3)));
    Vector all (bottom), top (bottom);

    all.insert (all.end (), vectors.begin () + static_cast<long> (row * 2 * DIM),
                vectors.begin () + static_cast<long> ((row + 1) * 2 * DIM));
    for (size_t i = 1; i < N_VECTORS; i++)
      for (size_t j = 0; j < i; j++)
        {
          double product = 0;

          for (size_t d = 0; d < DIM; d++)
            product += all[i * DIM + d] * all[j * DIM + d];
          top.push_back (product);
        }
    return apply_layers (parameters, 4, 3, true, top)[0];
  }

  double
  get_loss () const
  {
    double sum = 0;

    for (size_t row = 0; row < ROWS; row++)
      sum += std::log1p (std::exp (labels[row] > 0 ? -get_logit (row) : get_logit (row)));
    return sum;
  }

  // Returns the derivative of the loss with respect to *value, which must belong to this oracle.
  double
  differentiate (double *value) const
  {
    constexpr double STEP = 1e-6;
    double before = *value, high, low;

    *value = before + STEP;
    high = get_loss ();
    *value = before - STEP;
    low = get_loss ();
    *value = before;
    return (high - low) / (2 * STEP);
  }
};

class DlrmModel : public testing::Test
{
public: // public for the callbacks of the model
  void
  SetUp () override
  {
    std::mt19937 dice (11);
    std::uniform_real_distribution<float> draw (-1, 1);

    model = tps_dlrm_model_new (&SHAPE, nullptr);
    ASSERT_NE (model, nullptr);
    for (guint i = 0; i < model->n_parameters; i++)
      {
        size_t n = static_cast<size_t> (tps_shape_n_elems (&model->parameters[i].shape));

        values.emplace_back (n);
        gradients.emplace_back (n);
        for (float &value : values.back ())
          value = draw (dice);
        oracle.parameters.emplace_back (values.back ().begin (), values.back ().end ());
      }
    for (guint i = 0; i < model->n_parameters; i++)
      {
        model->parameters[i].value = values[i].data ();
        model->parameters[i].gradient = gradients[i].data ();
      }
    for (std::vector<float> *input : { &dense, &vectors })
      for (float &value : *input)
        value = draw (dice);
    oracle.dense.assign (dense.begin (), dense.end ());
    oracle.vectors.assign (vectors.begin (), vectors.end ());
    oracle.labels.assign (labels.begin (), labels.end ());
  }

  void
  TearDown () override
  {
    model->klass->free (model);
  }

  const gfloat *
  forward ()
  {
    TpsTensorView input = { { TPS_DTYPE_FLOAT32, 2, { ROWS, 3 } }, dense.data () }, output;
    gfloat *features;

    EXPECT_TRUE (tps_dlrm_model_reserve (model, ROWS, &features, nullptr));
    for (size_t row = 0; row < ROWS; row++)
      for (size_t i = 0; i < 2 * DIM; i++)
        features[(row * N_VECTORS + 1) * DIM + i] = vectors[row * 2 * DIM + i];
    EXPECT_TRUE (model->klass->forward (model, input, &output, nullptr));
    return static_cast<const gfloat *> (output.data);
  }

  TpsModel *model;
  std::vector<std::vector<float>> values, gradients;
  std::vector<float> dense = std::vector<float> (ROWS * 3),
                     vectors = std::vector<float> (ROWS * 2 * DIM), labels = { 1, 0, 0, 1 };
  Oracle oracle;
  std::vector<guint> ready;
  std::vector<float> feature_gradient;
  bool has_passed = false;
};

TEST_F (DlrmModel, LogitsAreThoseOfThePlainComputation)
{
  const gfloat *logits = forward ();

  for (size_t row = 0; row < ROWS; row++)
    EXPECT_NEAR (static_cast<double> (logits[row]), oracle.get_logit (row), 1e-5);
}

TEST_F (DlrmModel, GradientsAreTheDerivativesOfTheLoss)
{
  const gfloat *logits = forward ();
  std::vector<float> gradient (ROWS);
  TpsDlrmWatch watch = {};

  watch.features_ready = [] (gpointer data, gfloat *of_features, gsize rows) {
    auto *self = static_cast<DlrmModel *> (data);

    EXPECT_TRUE (self->ready.empty ()); // the gradients of the parameters must follow later
    self->feature_gradient.assign (of_features, of_features + rows * N_VECTORS * DIM);
  };
  watch.passed = [] (gpointer data) {
    auto *self = static_cast<DlrmModel *> (data);

    self->has_passed = self->ready.size () == self->model->n_parameters;
  };
  watch.user_data = this;
  tps_dlrm_model_watch (model, &watch);
  EXPECT_NEAR (tps_binary_cross_entropy (logits, labels.data (), ROWS, 1, gradient.data ()),
               oracle.get_loss (), 1e-5);
  model->klass->backward (
      model, gradient.data (),
      [] (gpointer data, guint index) { static_cast<DlrmModel *> (data)->ready.push_back (index); },
      this);
  EXPECT_TRUE (has_passed);
  for (size_t i = 0; i < ready.size (); i++) // each parameter once, the last layer first
    EXPECT_EQ (ready[i], ready.size () - 1 - i);
  for (size_t p = 0; p < gradients.size (); p++)
    for (size_t i = 0; i < gradients[p].size (); i++)
      EXPECT_NEAR (static_cast<double> (gradients[p][i]),
                   oracle.differentiate (&oracle.parameters[p][i]), 1e-4)
          << model->parameters[p].name << "[" << i << "]";
  for (size_t row = 0; row < ROWS; row++)
    for (size_t i = 0; i < 2 * DIM; i++)
      EXPECT_NEAR (static_cast<double> (feature_gradient[(row * N_VECTORS + 1) * DIM + i]),
                   oracle.differentiate (&oracle.vectors[row * 2 * DIM + i]), 1e-4);
}

TEST_F (DlrmModel, ParametersAreNamedAfterTheirStack)
{
  EXPECT_STREQ (model->parameters[0].name, "bottom.0.weight");
  EXPECT_STREQ (model->parameters[3].name, "bottom.1.bias");
  EXPECT_STREQ (model->parameters[8].name, "top.2.weight");
  EXPECT_EQ (model->n_parameters, 10u);
}

TEST_F (DlrmModel, RefusesASizeOfZero)
{
  TpsDlrmShape shape = SHAPE;
  g_autoptr (GError) error = nullptr;

  shape.dim = 0;
  EXPECT_EQ (tps_dlrm_model_new (&shape, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

TEST (BinaryCrossEntropy, StaysFiniteAndDividesTheGradient)
{
  const gfloat logits[] = { 200, -200, 0 }, labels[] = { 0, 1, 1 };
  gfloat gradient[3];

  EXPECT_NEAR (tps_binary_cross_entropy (logits, labels, 3, 4, gradient), 400 + std::log (2.0),
               1e-9);
  EXPECT_FLOAT_EQ (gradient[0], 0.25f);
  EXPECT_FLOAT_EQ (gradient[1], -0.25f);
  EXPECT_FLOAT_EQ (gradient[2], -0.125f);
}

}
