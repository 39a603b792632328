/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/optimizer.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace {

using testing::HasSubstr;
using testing::StartsWith;

#define KIND(NAME, name, number) TPS_OPTIMIZER_##NAME,
const TpsOptimizerKind KINDS[] = { TPS_OPTIMIZERS (KIND) };

struct Field
{
  const char *name;
  double TpsOptimizerSpec::*value;
  std::vector<TpsOptimizerKind> users;
  std::vector<double> bad;
};

const double TOO_LARGE = 1e39;     // for a FLOAT32
const double TOO_SMALL = 1e-60;    // 0 as a FLOAT32
const double NEARLY_1 = 1 - 1e-12; // 1 as a FLOAT32

const Field FIELDS[] = {
  { "momentum",
    &TpsOptimizerSpec::momentum,
    { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_NESTEROV },
    { -0.1, INFINITY, TOO_LARGE } },
  { "weight_decay",
    &TpsOptimizerSpec::weight_decay,
    { std::begin (KINDS), std::end (KINDS) },
    { -1e-9, INFINITY, TOO_LARGE } },
  { "epsilon",
    &TpsOptimizerSpec::epsilon,
    { TPS_OPTIMIZER_ADAGRAD, TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_OPTIMIZER_ADAM,
      TPS_OPTIMIZER_ADAMW },
    { 0, -1e-8, TOO_SMALL, INFINITY } },
  { "beta1",
    &TpsOptimizerSpec::beta1,
    { TPS_OPTIMIZER_ADAM, TPS_OPTIMIZER_ADAMW },
    { 1, -0.5, 1.5, NEARLY_1 } },
  { "beta2",
    &TpsOptimizerSpec::beta2,
    { TPS_OPTIMIZER_ADAM, TPS_OPTIMIZER_ADAMW },
    { 1, -0.5, INFINITY, NEARLY_1 } },
  { "l1", &TpsOptimizerSpec::l1, { TPS_OPTIMIZER_FTRL }, { -1, INFINITY } },
  { "l2", &TpsOptimizerSpec::l2, { TPS_OPTIMIZER_FTRL }, { -1, TOO_LARGE } },
  { "beta", &TpsOptimizerSpec::beta, { TPS_OPTIMIZER_FTRL }, { -1, -INFINITY } },
};

bool
uses (TpsOptimizerKind kind, const Field &field)
{
  for (TpsOptimizerKind user : field.users)
    if (user == kind)
      return true;
  return false;
}

bool
resolves (TpsOptimizerSpec spec)
{
  return tps_optimizer_spec_resolve (&spec, "optimizer", nullptr);
}

/* Returns the message of the refusal, which must leave the specification unchanged. */
std::string
refusal (TpsOptimizerSpec spec)
{
  TpsOptimizerSpec before = spec;
  g_autoptr (GError) error = nullptr;

  if (tps_optimizer_spec_resolve (&spec, "table.optimizer", &error))
    return "accepted";
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  EXPECT_EQ (memcmp (&before, &spec, sizeof spec), 0);
  return error->message;
}

TpsOptimizerSpec
resolved (TpsOptimizerKind kind)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (kind, 0.5);

  EXPECT_TRUE (tps_optimizer_spec_resolve (&spec, "optimizer", nullptr));
  return spec;
}

TEST (OptimizerSpec, DefaultsAreThoseOfPyTorchAndOfThePaper)
{
  TpsOptimizerSpec adam = resolved (TPS_OPTIMIZER_ADAM), ftrl = resolved (TPS_OPTIMIZER_FTRL);

  EXPECT_EQ (resolved (TPS_OPTIMIZER_SGD).momentum, 0);
  EXPECT_EQ (resolved (TPS_OPTIMIZER_ADAGRAD).epsilon, 1e-10);
  EXPECT_EQ (resolved (TPS_OPTIMIZER_ROWWISE_ADAGRAD).epsilon, 1e-10);
  EXPECT_EQ (adam.epsilon, 1e-8);
  EXPECT_EQ (adam.beta1, 0.9);
  EXPECT_EQ (adam.beta2, 0.999);
  EXPECT_EQ (ftrl.l1, 0);
  EXPECT_EQ (ftrl.l2, 0);
  EXPECT_EQ (ftrl.beta, 1);
  for (TpsOptimizerKind kind : KINDS)
    EXPECT_EQ (resolved (kind).weight_decay, kind == TPS_OPTIMIZER_ADAMW ? 0.01 : 0);
}

TEST (OptimizerSpec, EveryFieldIsResolvedAndUnusedFieldsAreZero)
{
  for (TpsOptimizerKind kind : KINDS)
    for (const Field &field : FIELDS)
      {
        EXPECT_FALSE (std::isnan (resolved (kind).*field.value)) << field.name;
        if (!uses (kind, field))
          {
            EXPECT_EQ (resolved (kind).*field.value, 0) << field.name;
          }
      }
}

TEST (OptimizerSpec, RefusesValuesOutOfRangeByName)
{
  for (TpsOptimizerKind kind : KINDS)
    for (const Field &field : FIELDS)
      for (double value : field.bad)
        {
          TpsOptimizerSpec spec = tps_optimizer_spec (kind, 0.5);

          spec.*field.value = value;
          if (value == 0 && !uses (kind, field))
            continue;
          EXPECT_THAT (refusal (spec), StartsWith ("table.optimizer." + std::string (field.name)))
              << kind << " " << value;
        }
}

TEST (OptimizerSpec, RefusesUnusedFieldsUnlessTheyAreZero)
{
  for (TpsOptimizerKind kind : KINDS)
    for (const Field &field : FIELDS)
      if (!uses (kind, field))
        {
          TpsOptimizerSpec spec = tps_optimizer_spec (kind, 0.5);

          spec.*field.value = 0;
          EXPECT_TRUE (resolves (spec)) << field.name;
          spec.*field.value = 0.5;
          EXPECT_EQ (refusal (spec), "table.optimizer." + std::string (field.name) + ": 0.5, but "
                                         + tps_optimizer_kind_name (kind) + " has none");
        }
}

TEST (OptimizerSpec, RefusesLearningRatesByName)
{
  for (TpsOptimizerKind kind : KINDS)
    for (double rate : { -0.1, (double) INFINITY, (double) NAN, TOO_LARGE })
      EXPECT_THAT (refusal (tps_optimizer_spec (kind, rate)),
                   StartsWith ("table.optimizer.learning_rate: "));
  EXPECT_TRUE (resolves (tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0)));
  EXPECT_THAT (refusal (tps_optimizer_spec (TPS_OPTIMIZER_FTRL, 0)), HasSubstr ("above 0"));
  EXPECT_THAT (refusal (tps_optimizer_spec (TPS_OPTIMIZER_FTRL, TOO_SMALL)), HasSubstr ("above 0"));
}

TEST (OptimizerSpec, NesterovNeedsMomentum)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_NESTEROV, 1);

  EXPECT_EQ (resolved (TPS_OPTIMIZER_NESTEROV).momentum, 0.9);
  spec.momentum = 0;
  EXPECT_THAT (refusal (spec), HasSubstr ("momentum: 0, expected a finite FLOAT32 above 0"));
}

} // namespace
