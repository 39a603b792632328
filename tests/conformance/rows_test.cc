/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests embedding bags forward and backward. Results are compared bit by bit. If additions may have
 * any order, results must be within 1e-5 of the sum of the magnitudes. */

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/conformance/device_test.h"
#include "tests/conformance/reference.h"
#include "tests/oracle/vectors.h"

namespace {

class Rows : public DeviceTest
{
protected:
  // Bags with random ids.
  reference::Bags
  bags_of_lengths (const std::vector<size_t> &lengths, int64_t rows, int64_t dim)
  {
    reference::Bags bags {};

    bags.rows = rows;
    bags.dim = dim;
    bags.pooling = TPS_POOLING_SUM;
    for (size_t n : lengths)
      {
        bags.offsets.push_back ((int64_t) bags.indices.size ());
        for (int64_t id : random_ids (n, rows))
          bags.indices.push_back (id);
      }
    return bags;
  }
  // Adds the rows of equal id, in the way of a push: each row is the gradient of a bag of its own.
  void
  add_equal_ids (const DeviceArray<int64_t> &indices, size_t n, int64_t n_ids, size_t dim,
                 const DeviceArray<float> &rows, DeviceArray<int64_t> *unique,
                 DeviceArray<float> *sums, size_t *n_unique)
  {
    DeviceArray<int64_t> counted (stream, 1);
    TpsBags bags {};

    bags.rows = n_ids;
    bags.dim = (int64_t) dim;
    bags.indices = indices.data ();
    bags.n_indices = bags.n_bags = n;
    bags.pooling = TPS_POOLING_SUM;
    ops->embedding_backward_rows (stream, &bags, rows.data (), unique->data (), sums->data (),
                                  counted.data ());
    *n_unique = tps_device_read_count (stream, counted.data ());
  }
  // Adds rows with random values. The ids are in [0, n_ids), and each of them must occur.
  void
  expect_tree_sums (const std::vector<int64_t> &ids, size_t n_ids, size_t dim)
  {
    std::vector<float> values = random_floats (ids.size () * dim), wanted (n_ids * dim);
    DeviceArray<int64_t> indices (stream, ids), unique (stream, ids.size ());
    DeviceArray<float> rows (stream, values), sums (stream, ids.size () * dim);
    size_t n_unique;

    for (size_t d = 0; d < dim; d++)
      {
        std::vector<std::vector<float>> terms (n_ids);

        for (size_t i = 0; i < ids.size (); i++)
          terms[ids[i]].push_back (values[i * dim + d]);
        for (size_t id = 0; id < n_ids; id++)
          wanted[id * dim + d] = reference::tree_sum (terms[id]);
      }
    add_equal_ids (indices, ids.size (), (int64_t) n_ids, dim, rows, &unique, &sums, &n_unique);
    ASSERT_EQ (n_unique, n_ids);
    std::vector<float> got = sums.read ();
    got.resize (wanted.size ());
    EXPECT_TRUE (same_bits (got, wanted)) << n_ids << " ids, dim " << dim;
  }
  reference::Bags
  random_bags (TpsPooling pooling, bool weighted)
  {
    std::vector<size_t> lengths (random () % 6);
    int64_t rows = 1 + (int64_t) (random () % 40), dim = (int64_t) (random () % 20);

    for (size_t &n : lengths)
      n = random () % 3 == 0 ? 0 : random () % 30;
    reference::Bags bags = bags_of_lengths (lengths, rows, dim);
    bags.pooling = pooling;
    if (weighted)
      bags.weights = random_floats (bags.indices.size ());
    return bags;
  }
};

// Bags in the device's memory.
class DeviceBags
{
public:
  DeviceBags (TpsStream *stream, const reference::Bags &bags)
      : indices_ (stream, bags.indices), offsets_ (stream, bags.offsets),
        weights_ (stream, bags.weights)
  {
    args.rows = bags.rows;
    args.dim = bags.dim;
    args.indices = indices_.data ();
    args.n_indices = bags.indices.size ();
    args.offsets = offsets_.data ();
    args.n_bags = bags.offsets.size ();
    args.weights = bags.weights.empty () ? nullptr : weights_.data ();
    args.pooling = bags.pooling;
  }

  TpsBags args {};

private:
  DeviceArray<int64_t> indices_, offsets_;
  DeviceArray<float> weights_;
};

TEST_P (Rows, GradientsOfEqualIdsAreAddedInTheirOrder)
{
  for (int round = 0; round < 300; round++)
    {
      size_t n = random () % 60, dim = random () % 9;
      const int64_t bounds[] = {
        INT64_MAX,  1 + (int64_t) (random () % 50), UINT32_MAX - 1,
        UINT32_MAX, (int64_t) UINT32_MAX + 1,       (int64_t) UINT32_MAX + 2
      };
      int64_t bound = bounds[round % 12 / 2];
      std::vector<int64_t> ids = random_ids (n, bound);
      std::vector<float> values = random_floats (n * dim);
      std::map<int64_t, std::vector<std::vector<float>>> terms; // of each column
      std::map<int64_t, std::vector<float>> wanted;
      if (n > 0)
        ids[0] = bound - 1;
      if (round % 5 == 0)
        std::sort (ids.begin (), ids.end ());

      for (size_t i = 0; i < n; i++)
        {
          terms[ids[i]].resize (dim);
          for (size_t d = 0; d < dim; d++)
            terms[ids[i]][d].push_back (values[i * dim + d]);
        }
      for (const auto &[id, columns] : terms)
        {
          wanted[id];
          for (const std::vector<float> &column : columns)
            wanted[id].push_back (reference::tree_sum (column));
        }
      size_t n_most = std::min (n, (size_t) bound), n_unique;
      DeviceArray<int64_t> indices (stream, ids), unique (stream, n_most);
      DeviceArray<float> rows (stream, values), sums (stream, n_most * dim);
      add_equal_ids (indices, n, bound, dim, rows, &unique, &sums, &n_unique);
      ASSERT_EQ (n_unique, wanted.size ());
      std::vector<int64_t> got_ids = unique.read ();
      std::vector<float> got = sums.read ();
      size_t u = 0;
      for (const auto &entry : wanted)
        {
          ASSERT_EQ (got_ids[u], entry.first);
          ASSERT_TRUE (
              same_bits (std::vector<float> (got.begin () + u * dim, got.begin () + (u + 1) * dim),
                         entry.second));
          u++;
        }
    }
}

TEST_P (Rows, PoolingAndItsGradientMatchTheReference)
{
  for (int round = 0; round < 400; round++)
    {
      TpsPooling pooling = (TpsPooling) (1 + round % 2);
      reference::Bags bags = random_bags (pooling, pooling == TPS_POOLING_SUM && round % 4 == 0);
      size_t n_out = bags.offsets.size () * bags.dim, n_table = bags.rows * bags.dim;
      std::vector<float> table = random_floats (n_table), gradient = random_floats (n_out);
      std::vector<float> wanted (n_out), wanted_gradient (n_table);
      DeviceBags device_bags (stream, bags);
      DeviceArray<float> device_table (stream, table), output (stream, n_out);
      DeviceArray<float> device_gradient (stream, gradient), table_gradient (stream, n_table);

      reference::pool (bags, table.data (), wanted.data ());
      reference::pool_backward (bags, gradient.data (), wanted_gradient.data ());
      ops->embedding_pool (stream, &device_bags.args, TPS_DTYPE_FLOAT32, device_table.data (),
                           output.data ());
      ASSERT_TRUE (same_bits (output.read (), wanted));
      ops->embedding_backward (stream, &device_bags.args, device_gradient.data (),
                               table_gradient.data ());
      ASSERT_TRUE (same_bits (table_gradient.read (), wanted_gradient));
    }
}

/* The pooled values of FLOAT16 and BFLOAT16 rows are exact conversions to float. */
TEST_P (Rows, PoolingOfHalfRowsMatchesTheReference)
{
  for (int round = 0; round < 200; round++)
    {
      TpsPooling pooling = (TpsPooling) (1 + round % 2);
      TpsDType dtype = round % 3 == 0 ? TPS_DTYPE_FLOAT16 : TPS_DTYPE_BFLOAT16;
      reference::Bags bags = random_bags (pooling, pooling == TPS_POOLING_SUM && round % 4 == 0);

      if (round % 5 == 0) /* each index is its own bag */
        {
          bags.offsets.clear ();
          for (size_t i = 0; i < bags.indices.size (); i++)
            bags.offsets.push_back ((int64_t) i);
        }
      size_t n_out = bags.offsets.size () * bags.dim;
      std::vector<uint16_t> table;
      std::vector<float> values, wanted (n_out);

      for (float value : random_floats (bags.rows * bags.dim))
        {
          table.push_back (reference::round_to_nearest (dtype, value));
          values.push_back ((float) reference::load (dtype, &table.back (), 0));
        }
      DeviceBags device_bags (stream, bags);
      DeviceArray<uint16_t> device_table (stream, table);
      DeviceArray<float> output (stream, n_out);

      reference::pool (bags, values.data (), wanted.data ());
      ops->embedding_pool (stream, &device_bags.args, dtype, device_table.data (), output.data ());
      ASSERT_TRUE (same_bits (output.read (), wanted)) << round;
    }
}

/* Without offsets, each row is copied. */
TEST_P (Rows, HalfRowsAreGatheredAsFloats)
{
  for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (int64_t dim : { 1, 3, 8, 64, 200 })
      {
        std::vector<int64_t> ids = random_ids (77, 50);
        std::vector<uint16_t> table;
        std::vector<float> wanted;
        TpsBags bags {};

        for (float value : random_floats ((size_t) (50 * dim)))
          table.push_back (reference::round_to_nearest (dtype, value));
        for (int64_t id : ids)
          for (int64_t d = 0; d < dim; d++)
            wanted.push_back ((float) reference::load (dtype, table.data (), id * dim + d));
        DeviceArray<int64_t> indices (stream, ids);
        DeviceArray<uint16_t> device_table (stream, table);
        DeviceArray<float> output (stream, wanted.size ());

        bags.rows = 50;
        bags.dim = dim;
        bags.indices = indices.data ();
        bags.n_indices = bags.n_bags = ids.size ();
        bags.pooling = TPS_POOLING_SUM;
        ops->embedding_pool (stream, &bags, dtype, device_table.data (), output.data ());
        EXPECT_TRUE (same_bits (output.read (), wanted)) << tps_dtype_name (dtype) << " " << dim;
      }
}

TEST_P (Rows, LongBagsOfWideRowsAreAddedInTheirOrder)
{
  for (int64_t dim : { 63, 64, 65, 128, 200 })
    for (bool weighted : { false, true })
      {
        reference::Bags bags = bags_of_lengths ({ 1, 700, 0, 3, 255, 256, 257, 5 }, 900, dim);
        if (weighted)
          bags.weights = random_floats (bags.indices.size ());
        std::vector<float> table = random_floats (bags.rows * dim);
        std::vector<float> wanted (bags.offsets.size () * dim);
        DeviceBags device_bags (stream, bags);
        DeviceArray<float> device_table (stream, table), output (stream, wanted.size ());

        reference::pool (bags, table.data (), wanted.data ());
        ops->embedding_pool (stream, &device_bags.args, TPS_DTYPE_FLOAT32, device_table.data (),
                             output.data ());
        EXPECT_TRUE (same_bits (output.read (), wanted)) << dim << " " << weighted;
      }
}

/* Each index is its own bag, so every pooling must return the rows themselves. */
TEST_P (Rows, SingleRowsAreCopied)
{
  for (int64_t dim : { 1, 3, 4, 28, 32, 60, 64, 68, 128, 130, 516 })
    for (size_t n : { 0, 1, 3, 4, 5, 257 })
      for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MEAN })
        {
          reference::Bags bags {};
          bags.rows = 30;
          bags.dim = dim;
          bags.pooling = pooling;
          bags.indices = random_ids (n, bags.rows);
          bags.offsets.resize (n);
          std::vector<float> table = random_floats (bags.rows * dim), wanted;
          DeviceBags device_bags (stream, bags);
          DeviceArray<float> device_table (stream, table), output (stream, n * dim);

          device_bags.args.offsets = nullptr;
          for (int64_t id : bags.indices)
            wanted.insert (wanted.end (), table.begin () + id * dim,
                           table.begin () + (id + 1) * dim);
          ops->embedding_pool (stream, &device_bags.args, TPS_DTYPE_FLOAT32, device_table.data (),
                               output.data ());
          ASSERT_TRUE (same_bits (output.read (), wanted)) << dim << " " << n << " " << pooling;
        }
}

TEST_P (Rows, SumsOfNegativeZerosStayNegative)
{
  reference::Bags bags {};
  bags.rows = 2;
  bags.dim = 70;
  bags.pooling = TPS_POOLING_SUM;
  bags.indices = { 0, 0, 1, 0, 1, 1 };
  bags.offsets = { 0, 1, 3, 3, 4 };
  std::vector<float> table (140, -0.0f), wanted (350, -0.0f);
  std::fill_n (wanted.begin () + 2 * 70, 70, 0.0f); // the empty bag
  DeviceBags device_bags (stream, bags);
  DeviceArray<float> device_table (stream, table), output (stream, wanted.size ());

  ops->embedding_pool (stream, &device_bags.args, TPS_DTYPE_FLOAT32, device_table.data (),
                       output.data ());
  EXPECT_TRUE (same_bits (output.read (), wanted));
}

TEST_P (Rows, RowGradientsAreTheTouchedRowsOfTheDenseGradient)
{
  for (int round = 0; round < 400; round++)
    {
      TpsPooling pooling = (TpsPooling) (1 + round % 2);
      reference::Bags bags = random_bags (pooling, pooling == TPS_POOLING_SUM && round % 4 == 0);
      size_t n_out = bags.offsets.size () * bags.dim, n_table = bags.rows * bags.dim;
      std::vector<float> gradient = random_floats (n_out);
      std::vector<float> wanted (n_table), dense (n_table);
      DeviceBags device_bags (stream, bags);
      DeviceArray<float> device_gradient (stream, gradient), rows (stream, n_table);
      DeviceArray<int64_t> unique (stream, bags.rows), counted (stream, 1);

      reference::pool_backward (bags, gradient.data (), wanted.data ());
      ops->embedding_backward_rows (stream, &device_bags.args, device_gradient.data (),
                                    unique.data (), rows.data (), counted.data ());
      size_t n_unique = tps_device_read_count (stream, counted.data ());
      ASSERT_LE (n_unique, (size_t) bags.rows);
      std::vector<int64_t> ids = unique.read ();
      std::vector<float> got = rows.read ();
      for (size_t u = 0; u < n_unique; u++)
        {
          ASSERT_TRUE (u == 0 || ids[u - 1] < ids[u]);
          for (int64_t d = 0; d < bags.dim; d++)
            dense[ids[u] * bags.dim + d] = got[u * bags.dim + d];
        }
      ASSERT_EQ (dense, wanted);
    }
}

// Returns `lengths[id]` repetitions of each id, shuffled. The lengths below are around the limit of
// each level of the tree.
std::vector<int64_t>
mixed_runs (const std::vector<size_t> &lengths, std::mt19937_64 &random)
{
  std::vector<int64_t> ids;

  for (size_t id = 0; id < lengths.size (); id++)
    ids.insert (ids.end (), lengths[id], (int64_t) id);
  std::shuffle (ids.begin (), ids.end (), random);
  return ids;
}

const std::vector<std::vector<size_t>> long_runs = {
  { 33 },
  { 1, 64, 33, 33, 2, 65, 31, 32, 34 },
  { 7, 1023, 1024, 1025, 40 },
  { 1056, 1057, 1, 1055 },
  { 5, 3, 2048, 33, 2049, 4 },
  { 31, 32768 + 33, 3 },
};

TEST_P (Rows, ManyRowsOfOneIdAreAddedAsATree)
{
  for (const std::vector<size_t> &lengths : long_runs)
    for (size_t dim : { 1, 3, 8 })
      expect_tree_sums (mixed_runs (lengths, random), lengths.size (), dim);
}

// With more than 32^4 terms the tree has a fifth list.
TEST_P (Rows, AMillionRowsOfOneIdReachTheDeepestList)
{
  expect_tree_sums (mixed_runs ({ 3, (1 << 20) + 33, 40 }, random), 3, 1);
}

TEST_P (Rows, GradientsOfHotIdsAreAddedAsATree)
{
  for (const std::vector<size_t> &lengths : long_runs)
    for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MEAN })
      for (int64_t dim : { 4, 5 })
        {
          reference::Bags bags {};
          bags.rows = (int64_t) lengths.size () + 2;
          bags.dim = dim;
          bags.pooling = pooling;
          bags.indices = mixed_runs (lengths, random);
          for (size_t i = 0; i < bags.indices.size (); i += 1 + random () % 3)
            bags.offsets.push_back ((int64_t) i);
          bags.offsets.push_back ((int64_t) bags.indices.size ()); // an empty bag
          if (pooling == TPS_POOLING_SUM)
            bags.weights = random_floats (bags.indices.size ());
          size_t n_out = bags.offsets.size () * dim, n_table = bags.rows * dim;
          std::vector<float> gradient = random_floats (n_out);
          std::vector<float> wanted (n_table), dense (n_table);
          DeviceBags device_bags (stream, bags);
          DeviceArray<float> device_gradient (stream, gradient), table_gradient (stream, n_table);
          DeviceArray<float> rows (stream, n_table);
          DeviceArray<int64_t> unique (stream, bags.rows), counted (stream, 1);

          reference::pool_backward (bags, gradient.data (), wanted.data ());
          ops->embedding_backward (stream, &device_bags.args, device_gradient.data (),
                                   table_gradient.data ());
          EXPECT_TRUE (same_bits (table_gradient.read (), wanted)) << pooling << " " << dim;
          ops->embedding_backward_rows (stream, &device_bags.args, device_gradient.data (),
                                        unique.data (), rows.data (), counted.data ());
          size_t n_unique = tps_device_read_count (stream, counted.data ());
          std::vector<int64_t> ids = unique.read ();
          std::vector<float> got = rows.read ();
          ASSERT_LE (n_unique, lengths.size ());
          for (size_t u = 0; u < n_unique; u++)
            std::copy_n (got.begin () + u * dim, dim, dense.begin () + ids[u] * dim);
          EXPECT_EQ (dense, wanted) << pooling << " " << dim;
        }
}

// The results must be within 1e-6 of torch.nn.functional.embedding_bag.
TEST_P (Rows, BagsMatchPyTorch)
{
  const struct
  {
    const char *name;
    TpsPooling pooling;
  } cases[] = { { "bags_sum", TPS_POOLING_SUM },
                { "bags_mean", TPS_POOLING_MEAN },
                { "bags_weighted", TPS_POOLING_SUM } };

  for (const auto &test : cases)
    {
      const oracle::Vectors &v = oracle::vectors ();
      std::string name = test.name;
      const oracle::Tensor &table = v.get (name + "/table");
      reference::Bags bags { table.dims[0],
                             table.dims[1],
                             v.ints (name + "/indices"),
                             v.ints (name + "/offsets"),
                             v.has (name + "/weights") ? v.floats (name + "/weights")
                                                       : std::vector<float> {},
                             test.pooling };
      DeviceBags device_bags (stream, bags);
      DeviceArray<float> device_table (stream, table.floats);
      DeviceArray<float> output (stream, bags.offsets.size () * bags.dim);
      DeviceArray<float> gradient (stream, v.floats (name + "/output.grad"));
      DeviceArray<float> table_gradient (stream, table.floats.size ());

      ops->embedding_pool (stream, &device_bags.args, TPS_DTYPE_FLOAT32, device_table.data (),
                           output.data ());
      ops->embedding_backward (stream, &device_bags.args, gradient.data (), table_gradient.data ());
      EXPECT_LT (oracle::worst_difference (output.read (), v.floats (name + "/output")), 1e-6)
          << name;
      EXPECT_LT (oracle::worst_difference (table_gradient.read (), v.floats (name + "/table.grad")),
                 1e-6)
          << name;
    }
}

INSTANTIATE_FOR_ALL_DEVICES (Rows);

} // namespace
