/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Updates of rows. 100 random steps with duplicate ids are compared with PyTorch and with the
 * formulas in float64 (tests/oracle). Each formula in float defines the bits that every version of
 * the loops must produce. */

#include "runtime/device/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/oracle/vectors.h"

namespace {

using oracle::vectors;
using oracle::worst_difference;
using Floats = std::vector<float>;

constexpr double TOLERANCE = 1e-5; // relative above 1

#define KIND(NAME, name, number) TPS_OPTIMIZER_##NAME,
const TpsOptimizerKind KINDS[] = { TPS_OPTIMIZERS (KIND) };

TpsOptimizerSpec
resolve (TpsOptimizerSpec spec)
{
  EXPECT_TRUE (tps_optimizer_spec_resolve (&spec, "optimizer", nullptr));
  return spec;
}

struct Table
{
  Table (const TpsOptimizerSpec &with, const Floats &initial, size_t of_dim)
      : spec (with), dim (of_dim), n_state (tps_optimizer_state_per_row (&with, of_dim)),
        values (initial), state (initial.size () / of_dim * n_state)
  {
  }

  void
  begin_step ()
  {
    tps_cpu_optimizer_step_init (&step, &spec, ++n_steps);
  }
  void
  update (size_t row, const float *gradient)
  {
    tps_cpu_optimizer_get (spec.kind) (&step, &values[row * dim], gradient,
                                       n_state > 0 ? &state[row * n_state] : nullptr, dim);
  }

  TpsOptimizerSpec spec;
  size_t dim, n_state;
  Floats values, state;
  TpsOptimizerStep step;
  int64_t n_steps = 0;
};

/* -- PyTorch -- */

/* Takes one step with the oracle's gradients, after the sum of the gradients of each row. If
 * `is_dense`, all rows have gradients. */
void
take_step (Table *table, size_t number, bool is_dense)
{
  const oracle::Tensor &indices = vectors ().get ("optimizer/indices");
  size_t n = indices.dims[1], n_rows = table->values.size () / table->dim;
  const float *gradients = &vectors ().floats ("optimizer/gradients")[number * n * table->dim];
  std::map<size_t, Floats> sums;

  for (size_t row = 0; is_dense && row < n_rows; row++)
    sums[row].resize (table->dim);
  for (size_t i = 0; i < n * table->dim; i++)
    {
      Floats &sum = sums[indices.ints[number * n + i / table->dim]];

      sum.resize (table->dim);
      sum[i % table->dim] += gradients[i];
    }
  table->begin_step ();
  for (const auto &[row, sum] : sums)
    table->update (row, sum.data ());
}

void
expect_oracle (const std::string &name, TpsOptimizerSpec spec, bool is_dense = false)
{
  const oracle::Tensor &initial = vectors ().get ("optimizer/initial");
  size_t n_steps = vectors ().get ("optimizer/indices").dims[0];
  Table table (resolve (spec), initial.floats, initial.dims[1]);
  int n_compared = 0;

  for (size_t number = 0; number < n_steps; number++)
    {
      std::string expected = "optimizer/" + name + "/" + std::to_string (number + 1);

      take_step (&table, number, is_dense);
      if (!vectors ().has (expected))
        continue;
      EXPECT_LT (worst_difference (table.values, vectors ().floats (expected)), TOLERANCE)
          << expected;
      n_compared++;
    }
  EXPECT_EQ (n_compared, 3);
}

/* Returns a factor of a case as the float in the oracle's file. */
float
factor (const std::string &name, size_t i)
{
  return vectors ().floats ("optimizer/" + name + "/factors").at (i);
}

TpsOptimizerSpec
spec_of (TpsOptimizerKind kind, const std::string &name)
{
  return tps_optimizer_spec (kind, factor (name, 0));
}

TEST (RowOptimizers, SgdMatchesPyTorch)
{
  for (const char *name : { "sgd", "sgd_momentum", "sgd_decay", "sgd_momentum_decay" })
    {
      TpsOptimizerSpec spec = spec_of (TPS_OPTIMIZER_SGD, name);

      spec.momentum = factor (name, 1);
      spec.weight_decay = factor (name, 2);
      expect_oracle (name, spec);
    }
}

TEST (RowOptimizers, AdagradMatchesPyTorch)
{
  TpsOptimizerSpec spec = spec_of (TPS_OPTIMIZER_ADAGRAD, "adagrad");

  expect_oracle ("adagrad", spec);
  spec.weight_decay = factor ("adagrad_decay", 1);
  spec.epsilon = factor ("adagrad_decay", 2);
  expect_oracle ("adagrad_decay", spec);
}

TEST (RowOptimizers, RowwiseAdagradIsItsFormula)
{
  TpsOptimizerSpec spec = spec_of (TPS_OPTIMIZER_ROWWISE_ADAGRAD, "rowwise_adagrad");

  expect_oracle ("rowwise_adagrad", spec);
  spec.weight_decay = factor ("rowwise_adagrad_decay", 1);
  spec.epsilon = factor ("rowwise_adagrad_decay", 2);
  expect_oracle ("rowwise_adagrad_decay", spec);
}

TEST (RowOptimizers, AdamMatchesSparseAdamOfPyTorch)
{
  expect_oracle ("adam_sparse", spec_of (TPS_OPTIMIZER_ADAM, "adam_sparse"));
}

TEST (RowOptimizers, AdamOfAllRowsMatchesAdamOfPyTorch)
{
  TpsOptimizerSpec spec = spec_of (TPS_OPTIMIZER_ADAM, "adam_dense");

  expect_oracle ("adam_dense", spec, true);
  spec.weight_decay = factor ("adam_dense_decay", 1);
  spec.epsilon = factor ("adam_dense_decay", 2);
  spec.beta1 = factor ("adam_dense_decay", 3);
  spec.beta2 = factor ("adam_dense_decay", 4);
  expect_oracle ("adam_dense_decay", spec, true);
}

TEST (RowOptimizers, FtrlMatchesThePaper)
{
  TpsOptimizerSpec spec = spec_of (TPS_OPTIMIZER_FTRL, "ftrl");

  expect_oracle ("ftrl", spec);
  for (const char *name : { "ftrl_l1_l2", "ftrl_decay" })
    {
      spec.weight_decay = factor (name, 1);
      spec.l1 = factor (name, 2);
      spec.l2 = factor (name, 3);
      spec.beta = factor (name, 4);
      expect_oracle (name, spec);
    }
}

/* -- bits -- */

/* The formula for one value. `d` is the gradient, including weight decay. */
using Formula =
    std::function<void (const TpsOptimizerStep &s, float d, float *v, float *state, size_t stride)>;

void
sgd_formula (const TpsOptimizerStep &s, float d, float *v, float *state, size_t)
{
  if (s.momentum != 0)
    d = *state = s.momentum * *state + d;
  *v -= s.learning_rate * d;
}

void
nesterov_formula (const TpsOptimizerStep &s, float d, float *v, float *state, size_t)
{
  *state = s.momentum * *state + d;
  *v -= s.learning_rate * (d + s.momentum * *state);
}

void
adagrad_formula (const TpsOptimizerStep &s, float d, float *v, float *state, size_t)
{
  *state += d * d;
  *v -= s.learning_rate * (d / (std::sqrt (*state) + s.epsilon));
}

void
adam_formula (const TpsOptimizerStep &s, float d, float *v, float *state, size_t stride)
{
  float *m = state, *second = state + stride;

  *m = s.beta1 * *m + (float) (1 - s.spec->beta1) * d;
  *second = s.beta2 * *second + (float) (1 - s.spec->beta2) * (d * d);
  *v -= s.correction1 * (*m / (std::sqrt (*second) / s.correction2 + s.epsilon));
}

void
adamw_formula (const TpsOptimizerStep &s, float g, float *v, float *state, size_t stride)
{
  float *m = state, *second = state + stride, weight = (float) (1 - s.spec->beta1);

  *v *= (float) (1 - s.spec->learning_rate * s.spec->weight_decay);
  *m = weight < 0.5f ? *m + weight * (g - *m) : g - (g - *m) * (1 - weight);
  *second = s.beta2 * *second + (float) (1 - s.spec->beta2) * g * g;
  *v -= s.correction1 * *m / (std::sqrt (*second) / s.correction2 + s.epsilon);
}

void
ftrl_formula (const TpsOptimizerStep &s, float d, float *v, float *state, size_t stride)
{
  float *z = state, *n = state + stride;
  float new_n = *n + d * d;

  if (*n == 0)
    *z = *v == 0 ? 0 : -(*v * (s.beta / s.learning_rate + s.l2) + (*v > 0 ? s.l1 : -s.l1));
  *z = (*z + d) - (std::sqrt (new_n) - std::sqrt (*n)) / s.learning_rate * *v;
  *n = new_n;
  if (new_n == 0)
    return;
  if (std::fabs (*z) <= s.l1)
    *v = 0;
  else
    *v = ((*z > 0 ? s.l1 : -s.l1) - *z) / ((s.beta + std::sqrt (*n)) / s.learning_rate + s.l2);
}

void
rowwise_adagrad_row (const TpsOptimizerStep &s, const Floats &d, float *values, float *state)
{
  float squares[16] = {}, rate;

  for (size_t i = 0; i < d.size (); i++)
    squares[i % 16] += d[i] * d[i];
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; lane++)
      squares[lane] += squares[lane + half];
  *state += squares[0] / (float) d.size ();
  rate = s.learning_rate / (std::sqrt (*state) + s.epsilon);
  for (size_t i = 0; i < d.size (); i++)
    values[i] -= rate * d[i];
}

void
update_by_formula (const TpsOptimizerStep &s, float *values, const Floats &gradient, float *state)
{
  const Formula formulas[] = { nullptr,      sgd_formula,  adagrad_formula, nullptr,
                               adam_formula, ftrl_formula, adamw_formula,   nesterov_formula };
  size_t dim = gradient.size ();
  bool is_decoupled = s.spec->kind == TPS_OPTIMIZER_ADAMW;
  Floats d (dim);

  for (size_t i = 0; i < dim; i++)
    d[i] = is_decoupled ? gradient[i] : gradient[i] + s.weight_decay * values[i];
  if (s.spec->kind == TPS_OPTIMIZER_ROWWISE_ADAGRAD)
    rowwise_adagrad_row (s, d, values, state);
  else
    for (size_t i = 0; i < dim; i++)
      formulas[s.spec->kind](s, d[i], &values[i], state + i, dim);
}

/* Returns a specification without weight decay, or one with weight decay and every other option
 * that selects another loop. */
TpsOptimizerSpec
spec_variant (TpsOptimizerKind kind, bool is_plain)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (kind, 0.07);

  if (!is_plain)
    {
      spec.weight_decay = 0.03;
      if (kind == TPS_OPTIMIZER_SGD)
        spec.momentum = 0.9;
      if (kind == TPS_OPTIMIZER_FTRL)
        {
          spec.l1 = 0.4;
          spec.l2 = 0.2;
          spec.beta = 0.7;
        }
    }
  return resolve (spec);
}

Floats
random_floats (std::mt19937 *dice, size_t n)
{
  std::normal_distribution<float> normal;
  Floats values (n);

  for (float &value : values)
    value = (*dice) () % 8 == 0 ? 0 : normal (*dice);
  return values;
}

std::vector<uint32_t>
bits_of (const Floats &values)
{
  std::vector<uint32_t> bits;

  for (float value : values)
    {
      bits.emplace_back ();
      memcpy (&bits.back (), &value, sizeof value);
    }
  return bits;
}

/* Compares each step that row_bits.txt has. */
void
expect_bits (const std::string &name, TpsOptimizerSpec spec)
{
  static const oracle::Vectors oracle ("tests/oracle/row_bits.txt");
  const std::string prefix = "bits/" + name + "/";
  const oracle::Tensor &gradients = oracle.get (prefix + "gradients");
  size_t dim = gradients.dims[2], n_compared = 0;
  Table table (resolve (spec), oracle.floats (prefix + "initial"), dim);

  for (int64_t step = 1; step <= gradients.dims[0]; step++)
    {
      std::string expected = prefix + std::to_string (step);
      const float *gradient = &gradients.floats[(step - 1) * table.values.size ()];

      table.begin_step ();
      for (size_t row = 0; row * dim < table.values.size (); row++)
        table.update (row, gradient + row * dim);
      if (!oracle.has (expected))
        continue;
      EXPECT_EQ (bits_of (table.values), bits_of (oracle.floats (expected))) << expected;
      n_compared++;
    }
  EXPECT_GT (n_compared, 2u);
}

TEST (RowOptimizers, AdamWHasTheBitsOfPyTorch)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_ADAMW, 0.01);

  spec.weight_decay = 0.1;
  expect_bits ("adamw", spec);
  spec = tps_optimizer_spec (TPS_OPTIMIZER_ADAMW, 0.1);
  spec.weight_decay = 0;
  spec.beta1 = 0.3;
  spec.beta2 = 0.99;
  spec.epsilon = 0.001;
  expect_bits ("adamw_plain", spec);
}

TEST (RowOptimizers, NesterovHasTheBitsOfPyTorch)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_NESTEROV, 0.05);

  expect_bits ("nesterov", spec);
  spec.momentum = 0.5;
  spec.weight_decay = 0.01;
  expect_bits ("nesterov_decay", spec);
}

class EveryKind : public testing::TestWithParam<std::tuple<TpsOptimizerKind, bool>>
{
protected:
  TpsOptimizerSpec
  spec () const
  {
    return spec_variant (std::get<0> (GetParam ()), std::get<1> (GetParam ()));
  }
};

TEST_P (EveryKind, HasTheBitsOfItsFormulaForEveryDim)
{
  std::mt19937 dice (5);

  for (size_t dim : { 1, 2, 3, 15, 16, 17, 31, 64, 100 })
    {
      Table table (spec (), random_floats (&dice, dim), dim);
      Floats values = table.values, state (table.n_state + 1);

      for (int i = 0; i < 30; i++)
        {
          Floats gradient = random_floats (&dice, dim);

          table.begin_step ();
          table.update (0, gradient.data ());
          update_by_formula (table.step, values.data (), gradient, state.data ());
        }
      state.resize (table.n_state);
      EXPECT_EQ (bits_of (table.values), bits_of (values)) << dim;
      EXPECT_EQ (bits_of (table.state), bits_of (state)) << dim;
    }
}

INSTANTIATE_TEST_SUITE_P (RowOptimizers, EveryKind,
                          testing::Combine (testing::ValuesIn (KINDS), testing::Bool ()),
                          [] (const auto &instance) {
                            return std::string (
                                       tps_optimizer_kind_name (std::get<0> (instance.param)))
                                   + (std::get<1> (instance.param) ? "_plain" : "_decay");
                          });

/* -- one by one -- */

TEST (RowOptimizers, AdamsCorrectionsFadeAfterManySteps)
{
  TpsOptimizerSpec spec = resolve (tps_optimizer_spec (TPS_OPTIMIZER_ADAM, 0.125));
  TpsOptimizerStep step;

  tps_cpu_optimizer_step_init (&step, &spec, 1000);
  EXPECT_FLOAT_EQ (step.correction1, (float) (0.125 / (1 - std::pow (0.9, 1000))));
  EXPECT_FLOAT_EQ (step.correction2, (float) std::sqrt (1 - std::pow (0.999, 1000)));
  tps_cpu_optimizer_step_init (&step, &spec, std::numeric_limits<int64_t>::max ());
  EXPECT_EQ (step.correction1, 0.125f);
  EXPECT_EQ (step.correction2, 1);
}

} // namespace
