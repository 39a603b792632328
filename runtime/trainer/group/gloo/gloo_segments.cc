/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/gloo_segments.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/trainer/group/rank_order.h"

namespace tps {

namespace {

constexpr size_t SEGMENT_ELEMS = 256 * 1024; /* 1 MiB of floats */
constexpr uint64_t WEIGHTS_PART = Mesh::MAX_PART;

/* out = pieces[0] + pieces[1] + …, in this order; `out` is one of them. */
void
sum_in_order (float *out, const std::vector<const void *> &pieces, size_t n_elems)
{
  constexpr size_t BLOCK = 4096; /* stays in the first-level cache */
  float sum[BLOCK];
  auto part = [&] (size_t p, size_t start) {
    return static_cast<const float *> (pieces[p]) + start;
  };

  if (pieces.size () == 2)
    {
      tps_cpu_add (TPS_DTYPE_FLOAT32, out, pieces[0], pieces[1], n_elems);
      return;
    }
  for (size_t start = 0; start < n_elems; start += BLOCK)
    {
      size_t n = std::min (BLOCK, n_elems - start);

      tps_cpu_add (TPS_DTYPE_FLOAT32, sum, part (0, start), part (1, start), n);
      for (size_t p = 2; p < pieces.size (); p++)
        tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, part (p, start), n);
      memcpy (out + start, sum, n * sizeof sum[0]);
    }
}

/* One all-reduce. Segment `number` belongs to rank number % size. */
class Reduction
{
public:
  Reduction (Mesh *mesh, Scratch *scratch, guint8 *data, size_t n_elems, size_t elem_size,
             TpsAverage *average);

  void run ();

private:
  /* A segment that this rank sums. */
  struct OwnSegment
  {
    uint64_t number;
    std::vector<const void *> pieces; /* indexed by rank */
    Mesh::Transfers recvs;            /* of the other ranks' pieces */
  };

  guint8 *
  start_of (uint64_t number) const
  {
    return data_ + number * segment_ * elem_size_;
  }

  size_t
  n_elems_of (uint64_t number) const
  {
    return std::min (segment_, n_elems_ - number * segment_);
  }

  void start_weights (Mesh::Transfers *recvs);
  void finish_weights (Mesh::Transfers *recvs);
  void start_segments ();
  void start_foreign_segment (uint64_t number);
  void start_own_segment (uint64_t number);
  void finish_own_segment (OwnSegment *own);
  void add_up (const OwnSegment &own);

  Mesh *mesh_;
  Scratch *scratch_;
  guint8 *data_;
  size_t n_elems_;
  size_t elem_size_;
  TpsAverage *average_;         /* null: a sum of floats */
  size_t segment_;              /* elements of each segment but the last */
  size_t scratch_used_ = 0;     /* bytes */
  std::vector<double> weights_; /* indexed by rank; for an average */
  std::vector<OwnSegment> own_;
  Mesh::Transfers sends_;
  Mesh::Transfers sums_; /* sums of the other ranks' segments */
};

/* Small data have one segment for each rank, so that all ranks share the work. */
Reduction::Reduction (Mesh *mesh, Scratch *scratch, guint8 *data, size_t n_elems, size_t elem_size,
                      TpsAverage *average)
    : mesh_ (mesh), scratch_ (scratch), data_ (data), n_elems_ (n_elems), elem_size_ (elem_size),
      average_ (average),
      segment_ (std::min (SEGMENT_ELEMS, (n_elems + mesh->size () - 1) / mesh->size ()))
{
  scratch_->resize (std::max (scratch_->size (), n_elems + mesh->size () * segment_));
}

/* Posts sends of our pieces to their owners, and receives of the owners' sums. */
void
Reduction::start_foreign_segment (uint64_t number)
{
  unsigned owner = static_cast<unsigned> (number % mesh_->size ());
  guint8 *start = start_of (number);
  size_t n_bytes = n_elems_of (number) * elem_size_;

  mesh_->start_send (&sends_, start, n_bytes, owner, 2 * number);
  mesh_->start_recv (&sums_, start, n_bytes, owner, 2 * number + 1);
}

/* Posts receives of the other ranks' pieces, each into scratch memory of its own. */
void
Reduction::start_own_segment (uint64_t number)
{
  OwnSegment own = { number, {}, {} };
  size_t n_bytes = n_elems_of (number) * elem_size_;
  guint8 *scratch = reinterpret_cast<guint8 *> (scratch_->data ());

  for (unsigned peer = 0; peer < mesh_->size (); peer++)
    {
      guint8 *piece = scratch + scratch_used_;

      if (peer == mesh_->rank ())
        {
          own.pieces.push_back (start_of (number));
          continue;
        }
      own.pieces.push_back (piece);
      mesh_->start_recv (&own.recvs, piece, n_bytes, peer, 2 * number);
      scratch_used_ += n_bytes;
    }
  own_.push_back (std::move (own));
}

void
Reduction::start_segments ()
{
  for (uint64_t number = 0; number * segment_ < n_elems_; number++)
    if (number % mesh_->size () == mesh_->rank ())
      start_own_segment (number);
    else
      start_foreign_segment (number);
}

void
Reduction::add_up (const OwnSegment &own)
{
  guint8 *start = start_of (own.number);
  size_t n_elems = n_elems_of (own.number);

  if (average_ == nullptr)
    sum_in_order (reinterpret_cast<float *> (start), own.pieces, n_elems);
  else
    tps_average_in_rank_order (average_->dtype, start, own.pieces.data (), weights_.data (),
                               mesh_->size (), average_->delivers_sum ? 1 : average_->weight,
                               n_elems);
}

void
Reduction::finish_own_segment (OwnSegment *own)
{
  mesh_->wait_for_recvs (&own->recvs);
  add_up (*own);
  for (unsigned peer = 0; peer < mesh_->size (); peer++)
    if (peer != mesh_->rank ())
      mesh_->start_send (&sends_, start_of (own->number), n_elems_of (own->number) * elem_size_,
                         peer, 2 * own->number + 1);
}

/* Sends this rank's weight to all ranks, and posts receives of theirs. */
void
Reduction::start_weights (Mesh::Transfers *recvs)
{
  weights_.assign (mesh_->size (), average_->weight);
  for (unsigned peer = 0; peer < mesh_->size (); peer++)
    {
      if (peer == mesh_->rank ())
        continue;
      mesh_->start_recv (recvs, &weights_[peer], sizeof weights_[peer], peer, WEIGHTS_PART);
      mesh_->start_send (&sends_, &weights_[mesh_->rank ()], sizeof weights_[peer], peer,
                         WEIGHTS_PART);
    }
}

void
Reduction::finish_weights (Mesh::Transfers *recvs)
{
  double sum = 0;

  mesh_->wait_for_recvs (recvs);
  for (unsigned peer = 0; peer < mesh_->size (); peer++)
    {
      if (!std::isfinite (weights_[peer]) || weights_[peer] < 0)
        throw Failure (TPS_ERROR_GROUP_BROKEN,
                       "rank " + std::to_string (peer) + " sent an invalid weight");
      sum += weights_[peer];
    }
  average_->weight = sum;
}

void
Reduction::run ()
{
  Mesh::Transfers weights;

  if (average_ != nullptr)
    start_weights (&weights);
  start_segments ();
  if (average_ != nullptr)
    finish_weights (&weights);
  for (OwnSegment &own : own_)
    finish_own_segment (&own);
  mesh_->wait_for_recvs (&sums_);
  mesh_->wait_for_sends (&sends_);
}

} /* namespace */

void
sum_over_mesh (Mesh *mesh, Scratch *scratch, float *data, size_t n_elems)
{
  Reduction (mesh, scratch, reinterpret_cast<guint8 *> (data), n_elems, sizeof (float), nullptr)
      .run ();
}

void
average_over_mesh (Mesh *mesh, Scratch *scratch, TpsAverage *average)
{
  Reduction (mesh, scratch, static_cast<guint8 *> (average->data), average->n_elems,
             tps_dtype_size (average->dtype), average)
      .run ();
}

} /* namespace tps */
