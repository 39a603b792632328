/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The kernels of a small push to a table: the gradients of bags of two ids, and a step of row-wise
 * Adagrad. */

#pragma once

#include "tests/cuda/arrays.h"

namespace push_step {

constexpr gsize kDim = 64;
constexpr gsize kTableRows = 10007; /* a prime, so ids repeat only after kTableRows */

/* The sizes of the measured pushes, from one that shows the fixed cost up to a trainer's batch,
 * with the number of launches of each. The launches are: keys, sort, marks, scan, groups, sums of
 * up to three levels, and optimizer. A sort or a scan of CUB counts as one launch, although CUB
 * launches several kernels. */
constexpr struct
{
  gsize n_ids;
  int n_launches;
} kPushes[] = { { 2, 7 }, { 32, 7 }, { 500, 8 }, { 2000, 9 } };

class Push
{
public:
  explicit Push (gsize n_ids) : memory_ (arrays::ON_DEVICE)
  {
    gsize n_bags = n_ids / 2;
    std::vector<gint64> ids (n_ids);
    gint64 *there = memory_.input<gint64> (n_ids);

    for (gsize i = 0; i < n_ids; i++)
      ids[i] = (gint64) (i * 7919 % kTableRows);
    bags_.rows = kTableRows;
    bags_.dim = kDim;
    bags_.indices = there;
    bags_.n_indices = n_ids;
    bags_.n_bags = n_bags;
    bags_.pooling = TPS_POOLING_SUM;
    gradient_ = memory_.input<gfloat> (n_bags * kDim);
    unique_ = memory_.output<gint64> (n_ids);
    n_unique_ = memory_.output<gint64> (1);
    update_.indices = unique_;
    update_.n_rows = n_ids;
    update_.dim = kDim;
    update_.dtype = TPS_DTYPE_FLOAT32;
    update_.values = values_ = memory_.output<gfloat> (kTableRows * kDim);
    update_.state = memory_.output<gfloat> (kTableRows);
    update_.gradients = sums_ = memory_.output<gfloat> (n_ids * kDim);
    update_.n_used = n_unique_;
    step_.learning_rate = 0.01f;
    step_.epsilon = 1e-8f;
    code_ = arrays::Steps (memory_)
                .read (there, ids.data (), n_ids)
                .fill (TPS_DTYPE_FLOAT32, gradient_, 1, n_bags * kDim)
                .fill (TPS_DTYPE_FLOAT32, values_, 0, kTableRows * kDim)
                .fill (TPS_DTYPE_FLOAT32, update_.state, 0, kTableRows)
                .code;
  }

  /* Returns the error of the preparation. */
  cudaError_t
  code () const
  {
    return code_;
  }

  cudaError_t
  enqueue (cudaStream_t stream)
  {
    cudaError_t code = tps_cuda_embedding_backward_rows (stream, &bags_, gradient_, unique_, sums_,
                                                         n_unique_);

    return code == cudaSuccess ? tps_cuda_rowwise_adagrad_rows (stream, &step_, &update_) : code;
  }

  /* Returns the first value of row 0, which belongs to id 0. */
  const gfloat *
  values () const
  {
    return values_;
  }

private:
  arrays::Memory memory_;
  TpsBags bags_ = {};
  TpsOptimizerStep step_ = {};
  TpsRowUpdate update_ = {};
  gfloat *gradient_, *sums_, *values_;
  gint64 *unique_, *n_unique_;
  cudaError_t code_;
};

} /* namespace push_step */
