/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A process group whose ranks are connected by the Gloo library.
 *
 * The group's thread takes jobs from a queue, one after another. If all ranks are processes of
 * one machine that can share memory, sums and averages use shared memory (gloo_shared_sum.h).
 * Otherwise they use sockets (gloo_segments.h), with the same bits. All other collectives use
 * sockets (gloo_mesh.h).
 *
 * Failures: a lost peer, a timeout or abort() ends the job and breaks the group. Later calls fail
 * at once, and the connections are closed, so that the other ranks need not wait for their
 * timeouts. No exception leaves this file.
 *
 * Sizes must match between ranks: ddp.c compares bucket layouts when a pass begins, and gathers
 * exchange their sizes first.
 *
 * Threads: `mutex_` guards the marked members. All other members belong to the group's thread while
 * it runs. Functions are called on any thread only if they say so.
 */

#include "runtime/trainer/group/process_groups.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/trainer/group/gloo/gloo_mesh.h"
#include "runtime/trainer/group/gloo/gloo_segments.h"
#include "runtime/trainer/group/gloo/gloo_shared_sum.h"
#include "runtime/base/error.h"

namespace {

using tps::Clock;
using tps::Failure;
using tps::Mesh;
using tps::milliseconds;

constexpr milliseconds FAREWELL_LIMIT (5000);

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
    return kind == ALL_GATHER ? "all-gather" : kind == FAREWELL ? "farewell" : "all-reduce";
  }
};

class GlooGroup : public TpsProcessGroup
{
public:
  GlooGroup (const TpsProcessGroupOptions *options);
  ~GlooGroup (); /* noexcept, as all destructors */

  void enqueue (const Job &job) noexcept;
  void abort () noexcept;
  TpsBuffer *get_memory (gsize n_bytes, TpsBuffer *current) noexcept;

private:
  void run () noexcept;
  void run_job (const Job &job);
  void do_job (const Job &job);
  void break_group (const std::string &text);
  void end_job (const Job &job);

  void all_reduce (float *data, size_t n_elems);
  void average (TpsAverage *average);

  Mesh mesh_;
  std::unique_ptr<tps::SharedSum> shared_; /* null if memory cannot be shared */
  tps::Scratch scratch_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  /* under mutex_ */
  bool stopping_ = false; /* under mutex_ */
  bool aborted_ = false;  /* under mutex_ */
  std::string broken_;    /* under mutex_; empty while the group works */

  std::thread thread_; /* must be the last member: it uses all of the above */
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
  static TpsBuffer *gloo_get_memory (TpsProcessGroup *group, gsize n_bytes, TpsBuffer *current);
}

const TpsProcessGroupOps gloo_ops = {
  "gloo",  gloo_all_reduce_f32, gloo_average, gloo_all_gather_bytes, gloo_abort, gloo_free,
  nullptr, gloo_get_memory,     TRUE,
};

GlooGroup::GlooGroup (const TpsProcessGroupOptions *options)
    : mesh_ (options), shared_ (tps::SharedSum::agree (&mesh_, !options->no_shared_memory))
{
  ops = &gloo_ops;
  rank = options->rank;
  size = options->size;
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
    shared_->abort ();
  mesh_.abort ();
}

void
GlooGroup::run () noexcept
{
  tps::SigpipeBlock block;
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

/* Runs the job unless the group is broken, breaks the group if the job fails, and reports the end
 * in both cases. */
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
  milliseconds limit = mesh_.timeout ();

  mesh_.begin (Clock::now ()
               + (job.kind == Job::FAREWELL ? std::min (limit, FAREWELL_LIMIT) : limit));
  switch (job.kind)
    {
    case Job::ALL_REDUCE:
      all_reduce (job.data, job.n_elems);
      break;
    case Job::AVERAGE:
      average (job.average);
      break;
    case Job::ALL_GATHER:
      mesh_.gather_bytes (job.sent, job.n_bytes, job.counts, job.gathered);
      break;
    case Job::FAREWELL:
      std::vector<uint64_t> counts;

      /* Closing a connection drops data that the peer has not received yet. So this waits until all
       * ranks have reported that they are done. */
      mesh_.gather_counts (0, &counts);
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
    shared_->abort ();
  mesh_.close ();
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

TpsBuffer *
GlooGroup::get_memory (gsize n_bytes, TpsBuffer *current) noexcept
{
  return shared_ != nullptr ? shared_->get_memory (n_bytes, current) : nullptr;
}

void
GlooGroup::all_reduce (float *data, size_t n_elems)
{
  if (shared_ != nullptr)
    shared_->sum (data, n_elems, mesh_.deadline ());
  else
    tps::sum_over_mesh (&mesh_, &scratch_, data, n_elems);
}

void
GlooGroup::average (TpsAverage *average)
{
  if (shared_ != nullptr)
    shared_->average (average, mesh_.deadline ());
  else
    tps::average_over_mesh (&mesh_, &scratch_, average);
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

  static TpsBuffer *
  gloo_get_memory (TpsProcessGroup *group, gsize n_bytes, TpsBuffer *current)
  {
    return static_cast<GlooGroup *> (group)->get_memory (n_bytes, current);
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
