/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Collectives over the Gloo library's transport.
 *
 * The group's thread takes jobs from a queue, one after the other. Connections, threads and buffers are Gloo's; the
 * all-reduce itself is written here on Gloo's sends and receives, because Gloo's ring adds in an order that depends on
 * the position in the buffer and the number of ranks, while ours promises rank order, as the averaging server does, and
 * because waits must be open to abort(). It moves as many bytes as a ring: segments of the data are dealt to the ranks;
 * everybody sends its piece of a segment to the segment's owner, who adds all pieces in rank order and sends the sum to
 * everybody. Segments overlap. An average of half floats is the same, and the ranks tell each other their weights meanwhile.
 * Where all ranks are processes of one machine that can share memory, sums of floats go through it (shared_sum.h), with
 * the same segments and the same bits.
 *
 * Failures: a lost peer, a time-out or abort() ends the job and breaks the group: what comes later fails at once, and the
 * connections are closed, so that the other ranks need not wait for their time-out. No exception leaves this file.
 *
 * Sizes must match between ranks (Gloo ends the process if a message is larger than its receive): ddp.c compares bucket
 * layouts when a pass begins, and gathers exchange their sizes first.
 *
 * Threads: `mutex_` guards what is marked; everything else belongs to the group's thread once it runs. SIGPIPE is
 * blocked on the threads that write to sockets, since Gloo uses writev().
 */

#include "runtime/ddp/group/process_groups.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "runtime/cpu/elementwise.h"
#include "runtime/ddp/group/gloo_join_store.h"
#include "runtime/ddp/group/shared_sum.h"
#include "runtime/error.h"

namespace {

using tps::Clock;
using tps::Failure;
using tps::milliseconds;

constexpr size_t SEGMENT_ELEMS = 256 * 1024; /* 1 MiB of floats */
constexpr uint64_t WEIGHTS_PART = (1 << 24) - 1;
constexpr milliseconds FAREWELL_LIMIT (5000);

milliseconds
remaining (Clock::time_point deadline)
{
  auto left = std::chrono::ceil<milliseconds> (deadline - Clock::now ());

  return std::max (left, milliseconds (1)); /* 0 would mean for ever */
}

/* Blocks SIGPIPE on this thread, and on threads that it starts, while it lives. */
class SigpipeBlock
{
public:
  SigpipeBlock ()
  {
    sigset_t pipe;

    sigemptyset (&pipe);
    sigaddset (&pipe, SIGPIPE);
    pthread_sigmask (SIG_BLOCK, &pipe, &before_);
  }

  ~SigpipeBlock ()
  {
    pthread_sigmask (SIG_SETMASK, &before_, nullptr);
  }

  SigpipeBlock (const SigpipeBlock &) = delete;
  SigpipeBlock &operator= (const SigpipeBlock &) = delete;

private:
  sigset_t before_;
};

/* out = pieces[0] + pieces[1] + …, in this order; `out` is one of them. */
void
sum_in_order (float *out, const std::vector<const void *> &pieces, size_t n_elems)
{
  constexpr size_t BLOCK = 4096; /* stays in the first-level cache */
  float sum[BLOCK];
  auto part = [&] (size_t p, size_t start) {
    return static_cast<const float *> (pieces[p]) + start;
  };

  if (pieces.size () == 2) /* order does not matter to two */
    {
      tps_cpu_accumulate (TPS_DTYPE_FLOAT32, out, pieces[pieces[0] == out ? 1 : 0], n_elems);
      return;
    }
  for (size_t start = 0; start < n_elems; start += BLOCK)
    {
      size_t n = std::min (BLOCK, n_elems - start);

      memcpy (sum, part (0, start), n * sizeof sum[0]);
      for (size_t p = 1; p < pieces.size (); p++)
        tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, part (p, start), n);
      memcpy (out + start, sum, n * sizeof sum[0]);
    }
}

struct Job
{
  enum Kind
  {
    ALL_REDUCE,
    AVERAGE,
    ALL_GATHER,
    FAREWELL,
  } kind;

  float *data;
  size_t n_elems;

  TpsAverage *average;

  const void *sent;
  size_t n_bytes;
  gsize *counts;
  TpsBuffer **gathered;

  TpsCollectiveDone done;
  gpointer user_data;

  const char *
  name () const
  {
    return kind == ALL_REDUCE   ? "all-reduce"
           : kind == AVERAGE    ? "average"
           : kind == ALL_GATHER ? "all-gather"
                                : "farewell";
  }
};

class GlooGroup : public TpsProcessGroup
{
public:
  GlooGroup (const TpsProcessGroupOptions *options);
  ~GlooGroup (); /* noexcept, as all destructors */

  void enqueue (const Job &job) noexcept;
  void abort () noexcept;

private:
  using Buffer = gloo::transport::UnboundBuffer;
  using BufferPtr = std::unique_ptr<Buffer>;
  using Transfers =
      std::vector<std::pair<unsigned, BufferPtr>>; /* with the rank at the other end */

  /* A segment that this rank adds up. */
  struct OwnSegment
  {
    uint64_t number;
    std::vector<const void *> pieces; /* by rank */
    Transfers recvs;                  /* of the others' pieces */
  };

  /* One all-reduce; segment `number` belongs to rank number % size. */
  struct Reduction
  {
    guint8 *data;
    size_t n_elems;
    size_t elem_size;
    TpsAverage *average;         /* NULL: a sum of floats */
    size_t segment;              /* elements of each but the last */
    size_t scratch_used;         /* bytes */
    std::vector<double> weights; /* by rank; of an average */
    std::vector<OwnSegment> own;
    Transfers sends;
    Transfers sums; /* of the segments of others */

    guint8 *
    start_of (uint64_t number) const
    {
      return data + number * segment * elem_size;
    }

    size_t
    n_elems_of (uint64_t number) const
    {
      return std::min (segment, n_elems - number * segment);
    }

    size_t
    n_bytes_of (uint64_t number) const
    {
      return n_elems_of (number) * elem_size;
    }
  };

  void run () noexcept;
  void run_job (const Job &job);
  void do_job (const Job &job);
  void break_group (const std::string &text);
  void end_job (const Job &job);

  void share_memory (bool wanted);
  void all_reduce (float *data, size_t n_elems);
  void sum_shared (float *data, size_t n_elems);
  void average_halves (TpsAverage *average);
  void reduce_segments (Reduction *reduction);
  void start_weights (Reduction *reduction, Transfers *recvs);
  void finish_weights (Reduction *reduction, Transfers *recvs);
  void start_foreign_segment (Reduction *reduction, uint64_t number);
  void start_own_segment (Reduction *reduction, uint64_t number);
  void finish_own_segment (Reduction *reduction, OwnSegment *own);
  void all_gather (const Job &job);
  void gather_counts (uint64_t mine, std::vector<uint64_t> *counts);

  BufferPtr start_send (const void *data, size_t n_bytes, unsigned peer, uint64_t part);
  BufferPtr start_recv (void *data, size_t n_bytes, unsigned peer, uint64_t part);
  void set_waiting (Buffer *buffer);
  void wait (Buffer *buffer, bool for_recv, unsigned peer);
  void wait_all (Transfers *buffers, bool for_recv);

  struct SharedSumFree
  {
    void
    operator() (TpsSharedSum *shared) const
    {
      tps_shared_sum_free (shared);
    }
  };

  milliseconds timeout_;
  std::unique_ptr<TpsSharedSum, SharedSumFree> shared_; /* null where memory cannot be shared */
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> scratch_;
  uint64_t sequence_ = 0; /* of jobs; tags their messages */
  Clock::time_point deadline_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;      /* under mutex_ */
  bool stopping_ = false;     /* under mutex_ */
  bool aborted_ = false;      /* under mutex_ */
  std::string broken_;        /* under mutex_; empty while the group works */
  Buffer *waiting_ = nullptr; /* under mutex_: what abort() must wake */

  std::thread thread_; /* last: uses all of the above */
};

extern "C"
{
  static void gloo_all_reduce_f32 (TpsProcessGroup *group, gfloat *data, gsize n_elems,
                                   TpsCollectiveDone done, gpointer user_data);
  static void gloo_average (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
                            gpointer user_data);
  static void gloo_all_gather_bytes (TpsProcessGroup *group, gconstpointer data, gsize n_bytes,
                                     gsize *counts, TpsBuffer **gathered, TpsCollectiveDone done,
                                     gpointer user_data);
  static void gloo_abort (TpsProcessGroup *group);
  static void gloo_free (TpsProcessGroup *group);
}

const TpsProcessGroupOps gloo_ops = {
  "gloo", gloo_all_reduce_f32, gloo_average, gloo_all_gather_bytes, gloo_abort, gloo_free,
};

GlooGroup::GlooGroup (const TpsProcessGroupOptions *options)
    : timeout_ (std::max<int64_t> (1, options->timeout_ns / 1000000))
{
  SigpipeBlock block;
  tps::JoinStore store (options, Clock::now () + timeout_);
  gloo::transport::tcp::attr attr (options->host == nullptr ? "127.0.0.1" : options->host);
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice (attr);

  ops = &gloo_ops;
  rank = options->rank;
  size = options->size;
  context_ = std::make_shared<gloo::rendezvous::Context> (static_cast<int> (rank),
                                                          static_cast<int> (size));
  context_->setTimeout (timeout_);
  context_->connectFullMesh (store, device);
  share_memory (!options->no_shared_memory);
  thread_ = std::thread ([this] { run (); });
}

GlooGroup::~GlooGroup ()
{
  {
    std::lock_guard<std::mutex> lock (mutex_);

    stopping_ = true;
    if (!aborted_ && broken_.empty ())
      jobs_.push_back (Job { Job::FAREWELL, nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr,
                             nullptr, nullptr });
    changed_.notify_all ();
  }
  thread_.join ();
}

void
GlooGroup::enqueue (const Job &job) noexcept
{
  std::lock_guard<std::mutex> lock (mutex_);

  jobs_.push_back (job);
  changed_.notify_all ();
}

void
GlooGroup::abort () noexcept
{
  std::lock_guard<std::mutex> lock (mutex_);

  aborted_ = true;
  if (broken_.empty ())
    broken_ = "the process group was closed by this rank";
  if (shared_ != nullptr)
    tps_shared_sum_break (shared_.get ());
  if (waiting_ != nullptr)
    {
      waiting_->abortWaitRecv ();
      waiting_->abortWaitSend ();
    }
}

void
GlooGroup::run () noexcept
{
  std::unique_lock<std::mutex> lock (mutex_);

  pthread_setname_np (pthread_self (), "tps-gloo");
  for (;;)
    {
      changed_.wait (lock, [this] { return stopping_ || !jobs_.empty (); });
      if (jobs_.empty ())
        return;
      Job job = jobs_.front ();
      jobs_.pop_front ();
      lock.unlock ();
      run_job (job);
      lock.lock ();
    }
}

/* Runs it unless the group is broken, breaks the group if it fails, and ends it either way. */
void
GlooGroup::run_job (const Job &job)
{
  bool usable;

  {
    std::lock_guard<std::mutex> lock (mutex_);

    usable = broken_.empty ();
  }
  if (usable)
    {
      try
        {
          do_job (job);
        }
      catch (const std::exception &e)
        {
          break_group (std::string (job.name ()) + " on rank " + std::to_string (rank) + " of "
                       + std::to_string (size) + ": " + e.what ());
        }
    }
  end_job (job);
}

void
GlooGroup::do_job (const Job &job)
{
  sequence_++;
  deadline_ = Clock::now ()
              + (job.kind == Job::FAREWELL ? std::min (timeout_, FAREWELL_LIMIT) : timeout_);
  switch (job.kind)
    {
    case Job::ALL_REDUCE:
      all_reduce (job.data, job.n_elems);
      break;
    case Job::AVERAGE:
      average_halves (job.average);
      break;
    case Job::ALL_GATHER:
      all_gather (job);
      break;
    case Job::FAREWELL:
      std::vector<uint64_t> counts (size);

      /* Closing a connection drops what the peer has not received yet, so wait until all have said that they are done. */
      gather_counts (0, &counts);
      break;
    }
}

void
GlooGroup::break_group (const std::string &text)
{
  {
    std::lock_guard<std::mutex> lock (mutex_);

    if (broken_.empty ())
      broken_ = text;
  }
  if (shared_ != nullptr)
    tps_shared_sum_break (shared_.get ());
  try
    {
      context_->closeConnections (); /* the others learn at once */
    }
  catch (const std::exception &)
    {
      /* A pair that is closed already is what we want. */
    }
}

void
GlooGroup::end_job (const Job &job)
{
  std::string broken;

  if (job.done == nullptr)
    return;
  {
    std::lock_guard<std::mutex> lock (mutex_);

    broken = broken_;
  }
  if (broken.empty ())
    {
      job.done (job.user_data, nullptr);
      return;
    }
  if (job.kind == Job::ALL_GATHER && *job.gathered != nullptr)
    {
      tps_buffer_unref (*job.gathered);
      *job.gathered = nullptr;
    }
  GError *error = g_error_new_literal (TPS_ERROR, TPS_ERROR_GROUP_BROKEN, broken.c_str ());
  job.done (job.user_data, error);
  g_error_free (error);
}

/* Messages: `part` tells those of one job apart; both sides compute the same. */

[[noreturn]] void
fail_with_peer (unsigned peer, const std::exception &e)
{
  throw Failure (TPS_ERROR_GROUP_BROKEN, "rank " + std::to_string (peer) + ": " + e.what ());
}

GlooGroup::BufferPtr
GlooGroup::start_send (const void *data, size_t n_bytes, unsigned peer, uint64_t part)
{
  BufferPtr buffer = context_->createUnboundBuffer (const_cast<void *> (data), n_bytes);

  try
    {
      buffer->send (static_cast<int> (peer), sequence_ << 24 | part);
    }
  catch (const std::exception &e)
    {
      fail_with_peer (peer, e);
    }
  return buffer;
}

GlooGroup::BufferPtr
GlooGroup::start_recv (void *data, size_t n_bytes, unsigned peer, uint64_t part)
{
  BufferPtr buffer = context_->createUnboundBuffer (data, n_bytes);

  try
    {
      buffer->recv (static_cast<int> (peer), sequence_ << 24 | part);
    }
  catch (const std::exception &e)
    {
      fail_with_peer (peer, e);
    }
  return buffer;
}

void
GlooGroup::set_waiting (Buffer *buffer)
{
  std::lock_guard<std::mutex> lock (mutex_);

  if (buffer != nullptr && aborted_)
    throw Failure (TPS_ERROR_ABORTED, "aborted");
  waiting_ = buffer;
}

void
GlooGroup::wait (Buffer *buffer, bool for_recv, unsigned peer)
{
  bool completed;

  set_waiting (buffer);
  try
    {
      completed = for_recv ? buffer->waitRecv (remaining (deadline_))
                           : buffer->waitSend (remaining (deadline_));
    }
  catch (const std::exception &e)
    {
      set_waiting (nullptr);
      fail_with_peer (peer, e);
    }
  set_waiting (nullptr);
  if (!completed)
    throw Failure (TPS_ERROR_ABORTED, "aborted");
}

void
GlooGroup::wait_all (Transfers *buffers, bool for_recv)
{
  for (auto &[peer, buffer] : *buffers)
    wait (buffer.get (), for_recv, peer);
}

/* Posts what can be posted at once: our pieces go to the owners, room waits for their sums. */
void
GlooGroup::start_foreign_segment (Reduction *reduction, uint64_t number)
{
  unsigned owner = static_cast<unsigned> (number % size);
  guint8 *start = reduction->start_of (number);
  size_t n_bytes = reduction->n_bytes_of (number);

  reduction->sends.emplace_back (owner, start_send (start, n_bytes, owner, 2 * number));
  reduction->sums.emplace_back (owner, start_recv (start, n_bytes, owner, 2 * number + 1));
}

/* Posts receives of the others' pieces, each into scratch memory of its own. */
void
GlooGroup::start_own_segment (Reduction *reduction, uint64_t number)
{
  OwnSegment own = { number, {}, {} };
  size_t n_bytes = reduction->n_bytes_of (number);
  guint8 *scratch = reinterpret_cast<guint8 *> (scratch_.data ());

  for (unsigned peer = 0; peer < size; peer++)
    {
      guint8 *piece = scratch + reduction->scratch_used;

      if (peer == rank)
        {
          own.pieces.push_back (reduction->start_of (number));
          continue;
        }
      own.pieces.push_back (piece);
      own.recvs.emplace_back (peer, start_recv (piece, n_bytes, peer, 2 * number));
      reduction->scratch_used += n_bytes;
    }
  reduction->own.push_back (std::move (own));
}

void
GlooGroup::finish_own_segment (Reduction *reduction, OwnSegment *own)
{
  guint8 *start = reduction->start_of (own->number);
  size_t n_elems = reduction->n_elems_of (own->number);
  const TpsAverage *average = reduction->average;

  wait_all (&own->recvs, true);
  if (average == nullptr)
    sum_in_order (reinterpret_cast<float *> (start), own->pieces, n_elems);
  else
    tps_average_in_rank_order (average->dtype, start, own->pieces.data (),
                               reduction->weights.data (), size,
                               average->delivers_sum ? 1 : average->weight, n_elems);
  for (unsigned peer = 0; peer < size; peer++)
    if (peer != rank)
      reduction->sends.emplace_back (
          peer, start_send (start, n_elems * reduction->elem_size, peer, 2 * own->number + 1));
}

/* Either all ranks share memory or none does. */
void
GlooGroup::share_memory (bool wanted)
{
  TpsSharedSumAddress address = {};
  std::vector<uint64_t> handles (size), tokens (size), ready (size);

  deadline_ = Clock::now () + timeout_;
  if (rank == 0 && wanted)
    shared_.reset (tps_shared_sum_create (size, &address));
  sequence_++;
  gather_counts (address.handle, &handles);
  sequence_++;
  gather_counts (address.token, &tokens);
  if (rank != 0 && wanted)
    {
      address = { handles[0], tokens[0] };
      shared_.reset (tps_shared_sum_open (&address, rank, size));
    }
  sequence_++;
  gather_counts (shared_ != nullptr, &ready);
  if (std::count (ready.begin (), ready.end (), 1u) != static_cast<long> (size))
    shared_.reset ();
  else
    tps_shared_sum_close_door (shared_.get ());
}

void
GlooGroup::sum_shared (float *data, size_t n_elems)
{
  gint64 deadline_ns = std::chrono::nanoseconds (deadline_.time_since_epoch ()).count ();
  GError *error = nullptr;

  if (tps_shared_sum_run (shared_.get (), data, n_elems, deadline_ns, &error))
    return;
  std::string text = error->message;
  g_error_free (error);
  throw Failure (TPS_ERROR_GROUP_BROKEN, text);
}

void
GlooGroup::all_reduce (float *data, size_t n_elems)
{
  if (shared_ != nullptr)
    {
      sum_shared (data, n_elems);
      return;
    }
  Reduction reduction = {};

  reduction.data = reinterpret_cast<guint8 *> (data);
  reduction.n_elems = n_elems;
  reduction.elem_size = sizeof (float);
  reduce_segments (&reduction);
}

void
GlooGroup::average_halves (TpsAverage *average)
{
  Reduction reduction = {};

  reduction.data = static_cast<guint8 *> (average->data);
  reduction.n_elems = average->n_elems;
  reduction.elem_size = tps_dtype_size (average->dtype);
  reduction.average = average;
  reduce_segments (&reduction);
}

/* Everybody tells everybody. */
void
GlooGroup::start_weights (Reduction *reduction, Transfers *recvs)
{
  reduction->weights.assign (size, reduction->average->weight);
  for (unsigned peer = 0; peer < size; peer++)
    {
      double *place = &reduction->weights[peer];

      if (peer == rank)
        continue;
      recvs->emplace_back (peer, start_recv (place, sizeof *place, peer, WEIGHTS_PART));
      reduction->sends.emplace_back (
          peer, start_send (&reduction->weights[rank], sizeof *place, peer, WEIGHTS_PART));
    }
}

void
GlooGroup::finish_weights (Reduction *reduction, Transfers *recvs)
{
  double sum = 0;

  wait_all (recvs, true);
  for (unsigned peer = 0; peer < size; peer++)
    {
      if (!std::isfinite (reduction->weights[peer]) || reduction->weights[peer] < 0)
        throw Failure (TPS_ERROR_GROUP_BROKEN,
                       "rank " + std::to_string (peer) + " sent a weight that is none");
      sum += reduction->weights[peer];
    }
  reduction->average->weight = sum;
}

void
GlooGroup::reduce_segments (Reduction *reduction)
{
  size_t n_elems = reduction->n_elems;
  /* Small data: one segment a rank, so that all share the work. */
  size_t segment = std::min (SEGMENT_ELEMS, (n_elems + size - 1) / size);
  Transfers weights;

  reduction->segment = segment;
  scratch_.resize (std::max (scratch_.size (), n_elems + size * segment));
  if (reduction->average != nullptr)
    start_weights (reduction, &weights);
  for (uint64_t number = 0; number * segment < n_elems; number++)
    if (number % size == rank)
      start_own_segment (reduction, number);
    else
      start_foreign_segment (reduction, number);
  if (reduction->average != nullptr)
    finish_weights (reduction, &weights);
  for (OwnSegment &own : reduction->own)
    finish_own_segment (reduction, &own);
  wait_all (&reduction->sums, true);
  wait_all (&reduction->sends, false);
}

void
GlooGroup::gather_counts (uint64_t mine, std::vector<uint64_t> *counts)
{
  Transfers sends, recvs;

  (*counts)[rank] = mine;
  for (unsigned peer = 0; peer < size; peer++)
    {
      if (peer == rank)
        continue;
      recvs.emplace_back (peer, start_recv (&(*counts)[peer], sizeof mine, peer, 0));
      sends.emplace_back (peer, start_send (&mine, sizeof mine, peer, 0));
    }
  wait_all (&recvs, true);
  wait_all (&sends, false);
}

void
GlooGroup::all_gather (const Job &job)
{
  Transfers sends, recvs;
  std::vector<uint64_t> counts (size);
  size_t n_bytes = 0, offset = 0;

  gather_counts (job.n_bytes, &counts);
  for (unsigned peer = 0; peer < size; peer++)
    {
      job.counts[peer] = counts[peer];
      if (counts[peer] > SIZE_MAX / 2 - n_bytes)
        throw Failure (TPS_ERROR_RESOURCE_EXHAUSTED,
                       "rank " + std::to_string (peer) + " announces too many bytes");
      n_bytes += counts[peer];
    }
  *job.gathered = tps_buffer_pool_try_get (tps_buffer_pool_get_default (), n_bytes);
  if (*job.gathered == nullptr)
    throw Failure (TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for " + std::to_string (n_bytes) + " bytes");

  for (unsigned peer = 0; peer < size; offset += counts[peer], peer++)
    {
      guint8 *place = tps_buffer_get_data (*job.gathered) + offset;

      if (peer == rank)
        {
          if (job.n_bytes > 0)
            memcpy (place, job.sent, job.n_bytes);
          continue;
        }
      if (counts[peer] > 0)
        recvs.emplace_back (peer, start_recv (place, counts[peer], peer, 1));
      if (job.n_bytes > 0)
        sends.emplace_back (peer, start_send (job.sent, job.n_bytes, peer, 1));
    }
  wait_all (&recvs, true);
  wait_all (&sends, false);
}

extern "C"
{
  static void
  gloo_all_reduce_f32 (TpsProcessGroup *group, gfloat *data, gsize n_elems, TpsCollectiveDone done,
                       gpointer user_data)
  {
    static_cast<GlooGroup *> (group)->enqueue (Job {
        Job::ALL_REDUCE, data, n_elems, nullptr, nullptr, 0, nullptr, nullptr, done, user_data });
  }

  static void
  gloo_average (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
                gpointer user_data)
  {
    static_cast<GlooGroup *> (group)->enqueue (
        Job { Job::AVERAGE, nullptr, 0, average, nullptr, 0, nullptr, nullptr, done, user_data });
  }

  static void
  gloo_all_gather_bytes (TpsProcessGroup *group, gconstpointer data, gsize n_bytes, gsize *counts,
                         TpsBuffer **gathered, TpsCollectiveDone done, gpointer user_data)
  {
    *gathered = nullptr;
    static_cast<GlooGroup *> (group)->enqueue (Job { Job::ALL_GATHER, nullptr, 0, nullptr, data,
                                                     n_bytes, counts, gathered, done, user_data });
  }

  static void
  gloo_abort (TpsProcessGroup *group)
  {
    static_cast<GlooGroup *> (group)->abort ();
  }

  static void
  gloo_free (TpsProcessGroup *group)
  {
    delete static_cast<GlooGroup *> (group);
  }
}

} /* namespace */

TpsProcessGroup *
tps_gloo_process_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  try
    {
      return new GlooGroup (options);
    }
  catch (const Failure &failure)
    {
      g_set_error_literal (error, TPS_ERROR, failure.code (), failure.what ());
    }
  catch (const std::exception &e)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN,
                   "process group: rank %u of %u could not connect: %s", options->rank,
                   options->size, e.what ());
    }
  return nullptr;
}
