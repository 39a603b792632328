/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the bodies of kernels on tables and arrays beyond 2^31 and 2^32 elements, without a GPU. The
 * memory is reserved, but only the pages that a test touches are provided. Kernels over whole
 * arrays run only the blocks at both ends of their grids. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device/device.h"
#include "runtime/device/dense.h"
#include "runtime/device/cpu/optimizer/optimizer.h"
#include "tests/cuda/host/fake_runtime.h"

namespace {

constexpr int64_t kTwo31 = int64_t { 1 } << 31, kTwo32 = int64_t { 1 } << 32;

/* An array of zeros that takes only the pages that are touched. */
template <typename T> class SparseArray
{
public:
  explicit SparseArray (size_t n) : n_bytes_ (n * sizeof (T))
  {
    data_ = mmap (nullptr, n_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    g_assert (data_ != MAP_FAILED);
  }
  SparseArray (const SparseArray &) = delete;
  SparseArray &operator= (const SparseArray &) = delete;
  ~SparseArray ()
  {
    munmap (data_, n_bytes_);
  }

  T *
  data () const
  {
    return static_cast<T *> (data_);
  }
  T &
  operator[] (size_t i) const
  {
    return data ()[i];
  }

private:
  size_t n_bytes_;
  void *data_;
};

class HugeTables : public testing::Test
{
protected:
  void
  SetUp () override
  {
    static TpsCudaDevice *only = tps_cuda_device_new (0, &tps_cuda_ops, nullptr);

    fake_cuda_reset ();
    device = &only->parent;
    ops = device->ops;
    stream = ops->stream_new (device, nullptr);
  }
  void
  TearDown () override
  {
    fake_cuda_reset ();
    ops->stream_free (stream);
  }

  std::string
  failure ()
  {
    g_autoptr (GError) error = nullptr;

    return ops->stream_sync (stream, &error) ? "" : error->message;
  }

  static TpsBags
  bags_of (const std::vector<int64_t> &ids, int64_t rows, int64_t dim, TpsPooling pooling)
  {
    TpsBags bags {};

    bags.rows = rows;
    bags.dim = dim;
    bags.indices = ids.data ();
    bags.n_indices = bags.n_bags = ids.size ();
    bags.pooling = pooling;
    return bags;
  }

  TpsDevice *device;
  const TpsDeviceOps *ops;
  TpsStream *stream;
};

/* Returns the ids on both sides of each limit of 32-bit numbers, unsorted. */
std::vector<int64_t>
ids_below (int64_t rows)
{
  std::vector<int64_t> ids = { kTwo31, 0, kTwo31 - 1, kTwo31 + 5, 7, kTwo31 };

  for (int64_t id : { kTwo32 - 2, kTwo32 - 1, kTwo32, kTwo32 + 7, rows - 1 })
    if (id < rows)
      ids.push_back (id);
  return ids;
}

/* Numbers of keys on both sides of 2^31 and 2^32. */
const int64_t kRows[] = { kTwo31 + 6, kTwo32 - 1, kTwo32, kTwo32 + 100 };

float
cell_of (int64_t id, int64_t d)
{
  return static_cast<float> (id % 1000 + 3 * d + 1);
}

TEST_F (HugeTables, PoolingReadsRowsBeyond32Bits)
{
  for (int64_t rows : kRows)
    for (int64_t dim : { 4, 3 })
      {
        std::vector<int64_t> ids = ids_below (rows);
        std::vector<float> output (ids.size () * dim), wanted;
        SparseArray<float> table (rows * dim);
        TpsBags bags = bags_of (ids, rows, dim, TPS_POOLING_SUM);

        for (int64_t id : ids)
          for (int64_t d = 0; d < dim; d++)
            table[id * dim + d] = cell_of (id, d);
        for (int64_t id : ids)
          for (int64_t d = 0; d < dim; d++)
            wanted.push_back (cell_of (id, d));
        ops->embedding_pool (stream, &bags, TPS_DTYPE_FLOAT32, table.data (), output.data ());
        EXPECT_EQ (failure (), "");
        EXPECT_EQ (output, wanted) << rows << " " << dim;
      }
}

TEST_F (HugeTables, GradientsOfRowsBeyond32BitsAreGroupedByAllTheirBits)
{
  for (int64_t rows : kRows)
    {
      constexpr int64_t dim = 4;
      std::vector<int64_t> ids = ids_below (rows), unique (ids.size (), -1), wanted = ids;
      std::vector<float> gradient (ids.size () * dim, 1), sums (ids.size () * dim);
      TpsBags bags = bags_of (ids, rows, dim, TPS_POOLING_SUM);
      int64_t n_unique = -1;

      std::sort (wanted.begin (), wanted.end ());
      wanted.erase (std::unique (wanted.begin (), wanted.end ()), wanted.end ());
      ops->embedding_backward_rows (stream, &bags, gradient.data (), unique.data (), sums.data (),
                                    &n_unique);
      EXPECT_EQ (failure (), "");
      ASSERT_EQ (n_unique, static_cast<int64_t> (wanted.size ())) << rows;
      unique.resize (wanted.size ());
      EXPECT_EQ (unique, wanted) << rows;
      for (size_t u = 0; u < wanted.size (); u++)
        for (int64_t d = 0; d < dim; d++)
          EXPECT_EQ (sums[u * dim + d],
                     static_cast<float> (std::count (ids.begin (), ids.end (), wanted[u])))
              << rows << " row " << wanted[u];
    }
}

TEST_F (HugeTables, OptimizersUpdateRowsBeyond32Bits)
{
  for (int kind = 1; kind <= TPS_N_OPTIMIZERS; kind++)
    for (size_t dim : { 4, 3 })
      {
        constexpr int64_t rows = kTwo32 + 100;
        std::vector<int64_t> ids = { 0, kTwo31 - 1, kTwo31, kTwo32 - 1, kTwo32, rows - 1 };
        TpsOptimizerSpec spec = tps_optimizer_spec ((TpsOptimizerKind) kind, 0.05);
        std::vector<float> gradients;
        TpsOptimizerStep step;

        spec.momentum = kind == TPS_OPTIMIZER_SGD ? 0.5 : spec.momentum;
        ASSERT_TRUE (tps_optimizer_spec_resolve (&spec, "optimizer", nullptr));
        size_t n_states = tps_optimizer_state_per_row (&spec, dim);
        SparseArray<float> values (rows * dim), state (rows * n_states);
        for (int64_t id : ids)
          for (size_t d = 0; d < dim; d++)
            {
              values[id * dim + d] = cell_of (id, (int64_t) d);
              gradients.push_back (0.25f * cell_of (id + 1, (int64_t) d));
            }
        TpsRowUpdate update = { ids.data (),    ids.size (),       dim,
                                values.data (), state.data (),     gradients.data (),
                                nullptr,        TPS_DTYPE_FLOAT32, {} };
        ops->update_rows (stream, &spec, 1, &update);
        EXPECT_EQ (failure (), "");

        tps_cpu_optimizer_step_init (&step, &spec, 1);
        for (size_t i = 0; i < ids.size (); i++)
          {
            std::vector<float> row, row_state (n_states);

            for (size_t d = 0; d < dim; d++)
              row.push_back (cell_of (ids[i], (int64_t) d));
            tps_cpu_optimizer_get (spec.kind) (&step, row.data (), &gradients[i * dim],
                                               row_state.data (), dim);
            EXPECT_EQ (memcmp (row.data (), &values[ids[i] * dim], dim * sizeof (float)), 0)
                << tps_optimizer_kind_name (spec.kind) << " row " << ids[i];
            EXPECT_EQ (memcmp (row_state.data (), state.data () + ids[i] * n_states,
                               n_states * sizeof (float)),
                       0)
                << tps_optimizer_kind_name (spec.kind) << " row " << ids[i];
          }
      }
}

TEST_F (HugeTables, ArraysBeyond32BitsAreProcessedToTheirEnd)
{
  const size_t n = kTwo32 + 17;
  const std::vector<size_t> places = { 0, 1, 255, 1024, n - 1025, n - 256, n - 18, n - 2, n - 1 };
  SparseArray<float> a (n), b (n);
  SparseArray<uint16_t> halves (n);
  TpsSgdFactors factors = { 0.5, 0.5, 0 };

  fake_cuda_run_edges (8);
  ops->fill (stream, TPS_DTYPE_FLOAT32, b.data (), 3, n);
  ops->fill (stream, TPS_DTYPE_FLOAT32, a.data (), 2, n);
  ops->accumulate (stream, TPS_DTYPE_FLOAT32, a.data (), b.data (), n);
  for (size_t i : places)
    EXPECT_EQ (a[i], 5) << i;
  ops->scale_accumulate (stream, TPS_DTYPE_FLOAT32, a.data (), b.data (), 2, n);
  ops->divide (stream, TPS_DTYPE_BFLOAT16, halves.data (), a.data (), 11, n);
  ops->cast (stream, TPS_DTYPE_FLOAT32, b.data (), TPS_DTYPE_BFLOAT16, halves.data (), n);
  for (size_t i : places)
    EXPECT_EQ (b[i], 1) << i;
  tps_cuda_dense_ops.sgd (stream, &factors, a.data (), b.data (), nullptr, n);
  tps_cuda_dense_ops.relu (stream, a.data (), a.data (), n);
  for (size_t i : places)
    EXPECT_EQ (a[i], 10.5f) << i;
  tps_cuda_dense_ops.l1_loss (stream, nullptr, a.data (), a.data (), b.data (), n);
  for (size_t i : places)
    EXPECT_EQ (a[i], 1 / static_cast<float> (n)) << i;
  EXPECT_EQ (failure (), "");
}

/* Positions of ids are 32-bit numbers, so too many ids must be refused before any memory is
 * touched. */
TEST_F (HugeTables, MoreIdsThanPositionsAreRefused)
{
  const size_t n = kTwo32 - 1;
  int64_t id = 0, n_unique = 0;
  float row = 0;
  TpsBags bags = bags_of ({}, 10, 1, TPS_POOLING_SUM);

  bags.indices = &id;
  bags.n_indices = n;
  bags.n_bags = n;
  ops->embedding_backward_rows (stream, &bags, &row, &id, &row, &n_unique);
  EXPECT_THAT (failure (), testing::HasSubstr ("embedding_backward_rows"));
}

} // namespace
