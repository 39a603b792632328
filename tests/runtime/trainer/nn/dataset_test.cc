/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* DummyData, the distribution of batches, and the registries. */

#include "runtime/trainer/nn/dataset.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/trainer/nn/model.h"

namespace {

gboolean
generate (const char *config, gint64 seed, TpsDataset *dataset, GError **error)
{
  GError *parse_error = nullptr;
  GVariant *values = g_variant_parse (G_VARIANT_TYPE_VARDICT, config, nullptr, nullptr,
                                      &parse_error);
  g_assert_no_error (parse_error);
  gboolean ok = tps_data_class_find ("DummyData", nullptr)->generate (values, seed, dataset, error);

  g_variant_unref (values);
  return ok;
}

std::vector<int64_t>
ints_of (const TpsTensor &tensor)
{
  const int64_t *data = (const int64_t *) tps_tensor_data (&tensor);

  return std::vector<int64_t> (data, data + tps_shape_n_elems (&tensor.shape));
}

const char *const kConfig =
    "{'max_val': <int64 100>, 'sample_count': <int64 50>, 'sample_length': <int64 40>, "
    "'sparsity_percentage': <int64 20>}";

TEST (DummyData, UsesTheWholePoolAndNothingElse)
{
  g_auto (TpsDataset) dataset = {};

  ASSERT_TRUE (generate (kConfig, 3, &dataset, nullptr));
  EXPECT_EQ (dataset.input.shape.dims[0], 50);
  EXPECT_EQ (dataset.input.shape.dims[1], 40);
  EXPECT_EQ (dataset.target.shape.dims[0], 50);
  std::vector<int64_t> input = ints_of (dataset.input), target = ints_of (dataset.target);
  std::set<int64_t> ids (input.begin (), input.end ());
  EXPECT_EQ (ids.size (), 80u); /* one of 80 ids is missing among 2000 draws once in 10^9 cases */
  EXPECT_GE (*ids.begin (), 0);
  EXPECT_LT (*ids.rbegin (), 100);
  EXPECT_GT (*ids.rbegin (), 79) << "the pool is a random choice, not the first ids";
  EXPECT_GT (std::set<int64_t> (target.begin (), target.end ()).size (), 20u);
  for (int64_t c : target)
    EXPECT_TRUE (c >= 0 && c < 100);
}

TEST (DummyData, TooMuchDataIsAnErrorAndNotTheEnd)
{
  g_auto (TpsDataset) dataset = {};
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (generate (
      "{'max_val': <int64 5>, 'sample_count': <int64 1000000000>, 'sample_length': <int64 "
      "1000000>, 'sparsity_percentage': <int64 0>}",
      1, &dataset, &error));
  EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
}

TpsDataset
numbered_samples (int64_t n)
{
  TpsDataset dataset = {};

  tps_tensor_init_2d (&dataset.input, TPS_DTYPE_INT64, n, 3);
  tps_tensor_init_1d (&dataset.target, TPS_DTYPE_INT64, n);
  for (int64_t i = 0; i < n; i++)
    {
      ((int64_t *) tps_tensor_data (&dataset.target))[i] = i;
      for (int64_t j = 0; j < 3; j++)
        ((int64_t *) tps_tensor_data (&dataset.input))[i * 3 + j] = 10 * i + j;
    }
  return dataset;
}

TEST (Deal, TrainersGetEveryNthBatchAndTheLastIsShort)
{
  g_auto (TpsDataset) dataset = numbered_samples (23);
  GPtrArray *dealt = tps_dataset_deal (&dataset, 5, 2);
  const std::vector<std::vector<std::vector<int64_t>>> wanted = {
    { { 0, 1, 2, 3, 4 }, { 10, 11, 12, 13, 14 }, { 20, 21, 22 } },
    { { 5, 6, 7, 8, 9 }, { 15, 16, 17, 18, 19 } }
  };

  ASSERT_EQ (dealt->len, 2u);
  for (guint trainer = 0; trainer < 2; trainer++)
    {
      GArray *batches = (GArray *) g_ptr_array_index (dealt, trainer);

      ASSERT_EQ (batches->len, wanted[trainer].size ());
      for (guint i = 0; i < batches->len; i++)
        {
          const TpsTrainBatch &batch = g_array_index (batches, TpsTrainBatch, i);

          EXPECT_EQ (ints_of (batch.target), wanted[trainer][i]);
          EXPECT_EQ (batch.input.shape.dims[0], (int64_t) wanted[trainer][i].size ());
          EXPECT_EQ (ints_of (batch.input)[2], 10 * wanted[trainer][i][0] + 2);
          EXPECT_EQ (batch.input.buffer, dataset.input.buffer) << "a view, not a copy";
        }
    }
  g_ptr_array_unref (dealt);
}

} // namespace
