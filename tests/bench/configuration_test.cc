// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/parameter_server/configuration.h"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST (Configuration, BuiltInIdsAreThere)
{
  g_auto (TpsBenchConfiguration) model = {};
  gint64 n = 0;

  ASSERT_TRUE (tps_bench_configuration_load (nullptr, tps_bench_model_configurations,
                                             "DummyModelSparse", "model_class", &model, nullptr));
  EXPECT_STREQ (model.class_name, "DummyModel");
  ASSERT_TRUE (g_variant_lookup (model.arguments, "dense_layers_count", "x", &n));
  EXPECT_EQ (n, 8);
}

TEST (Configuration, AnUnknownIdListsTheKnownOnes)
{
  g_auto (TpsBenchConfiguration) data = {};
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (tps_bench_configuration_load (nullptr, tps_bench_data_configurations, "Nope",
                                              "data_class", &data, &error));
  EXPECT_NE (std::string (error->message).find ("DummyData"), std::string::npos);
}

TEST (Configuration, AFileThatIsNotThereIsNamed)
{
  g_auto (TpsBenchConfiguration) data = {};
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (tps_bench_configuration_load ("/nonexistent.json", nullptr, "x", "data_class",
                                              &data, &error));
  EXPECT_NE (std::string (error->message).find ("/nonexistent.json"), std::string::npos);
}

TEST (Configuration, AWrongStructureIsRefusedWithTheExpectedOne)
{
  g_auto (TpsBenchConfiguration) data = {};
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (tps_bench_configuration_load (nullptr, "{\"x\": {\"data_class\": 3}}", "x",
                                              "data_class", &data, &error));
  EXPECT_NE (std::string (error->message).find ("\"configurations\""), std::string::npos);
}

TEST (Configuration, ClassesWithoutAFileHaveNoArguments)
{
  g_autoptr (GVariant)
      arguments = tps_bench_arguments_load (nullptr, "DdpTrainer", nullptr, nullptr);

  EXPECT_EQ (g_variant_n_children (arguments), 0u);
}

} // namespace
