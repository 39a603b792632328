/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gradients in memory that another process maps. They must be read in place, at most once, and
 * released with the round. */

#include <gtest/gtest.h>

#include "runtime/server/averaging/averaging.h"
#include "runtime/server/averaging/server_kind.h"
#include "runtime/base/error.h"
#include "tests/runtime/server/averaging/gradients.h"

namespace {

using averaging_test::dense;
using averaging_test::to_average;
using averaging_test::to_gradient;

/* Lends gradients and counts those that are not yet returned. */
class Memory
{
public:
  /* Returns the gradient of one trainer. */
  TpsGradient
  share (double value)
  {
    TpsGradient gradient = to_gradient (dense ({ value, value + 1 }));
    TpsShape shape = gradient.dense.shape;
    Lent *lent = new Lent { tps_buffer_ref (gradient.dense.buffer), &n_held };

    tps_tensor_clear (&gradient.dense);
    tps_tensor_init_take (&gradient.dense, &shape,
                          tps_buffer_new_shared (tps_buffer_get_data (lent->buffer),
                                                 tps_buffer_get_size (lent->buffer), give_back,
                                                 lent),
                          0);
    n_held++;
    return gradient;
  }

  int n_held = 0;

private:
  struct Lent
  {
    TpsBuffer *buffer;
    int *n_held;
  };

  static void
  give_back (gpointer data)
  {
    Lent *lent = static_cast<Lent *> (data);

    --*lent->n_held;
    tps_buffer_unref (lent->buffer);
    delete lent;
  }
};

/* The trainers of one round. Their jobs run when the test requests it. */
class SharedGradients : public testing::Test
{
protected:
  static constexpr guint N = 3;

  SharedGradients ()
  {
    TpsAveragingOptions options = {};

    options.n_trainers = N;
    options.round_timeout_ns = 1000;
    options.may_fold = tps_server_kind_find (nullptr, nullptr)->may_fold;
    options.shared_buffers = shared_averages;
    averaging = tps_averaging_new (&options);
  }

  ~SharedGradients () override
  {
    GError *error = g_error_new_literal (TPS_ERROR, TPS_ERROR_ABORTED, "the end");
    TpsAveragingOutput output;

    tps_averaging_output_init (&output);
    tps_averaging_end_all (averaging, error, &output);
    tps_averaging_output_clear (&output);
    tps_averaging_free (averaging);
    g_error_free (error);
    for (TpsAveragingTicket &ticket : tickets)
      tps_averaging_ticket_clear (&ticket);
    EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (shared_averages), 0u);
    tps_buffer_pool_unref (shared_averages);
  }

  /* Pushes, runs the resulting jobs, and returns their number. */
  int
  push (guint ticket, gint32 trainer, TpsGradient gradient)
  {
    TpsAveragingOutput output;
    int n_jobs = 0;

    tps_averaging_ticket_init (&tickets[ticket], trainer, 0, 0, &gradient, TRUE);
    tps_averaging_output_init (&output);
    tps_averaging_push (averaging, &tickets[ticket], 0, &output);
    while (output.jobs != nullptr)
      {
        TpsAveragingJob *job = output.jobs;

        output.jobs = job->next;
        if (output.jobs == nullptr)
          output.last_job = nullptr;
        tps_averaging_job_run (job);
        tps_averaging_job_done (averaging, job, &output);
        n_jobs++;
      }
    tps_averaging_output_clear (&output);
    return n_jobs;
  }

  Memory memory;
  TpsBufferPool *shared_averages = tps_buffer_pool_new (nullptr, nullptr, 0);
  TpsAveraging *averaging;
  TpsAveragingTicket tickets[N + 1] = {};
};

TEST_F (SharedGradients, TheFirstIsNotCopiedButAddedToTheNext)
{
  EXPECT_EQ (push (0, 0, memory.share (1)), 0);
  EXPECT_EQ (memory.n_held, 1);
  EXPECT_EQ (push (1, 1, memory.share (10)), 1);
  EXPECT_EQ (memory.n_held, 0); /* the server's own memory has their sum */
  EXPECT_EQ (push (2, 2, memory.share (100)), 1);
  EXPECT_EQ (memory.n_held, 0);
  for (guint i = 0; i < N; i++)
    EXPECT_TRUE (to_average (tickets[i].average)
                 == averaging_test::as_average (dense ({ 37, 38 })));
}

TEST_F (SharedGradients, HaveTheirAverageInMemoryForSuch)
{
  for (guint i = 0; i < N; i++)
    push (i, static_cast<gint32> (i), memory.share (1));
  EXPECT_GT (tps_buffer_pool_get_n_bytes_out (shared_averages), 0u);
}

TEST_F (SharedGradients, OthersHaveTheirAverageInOtherMemory)
{
  for (guint i = 0; i < N; i++)
    push (i, static_cast<gint32> (i), to_gradient (dense ({ 1, 2 })));
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (shared_averages), 0u);
  EXPECT_TRUE (to_average (tickets[0].average) == averaging_test::as_average (dense ({ 1, 2 })));
}

TEST_F (SharedGradients, ARepeatOfOneThatWaitsIsJudgedAtOnce)
{
  EXPECT_EQ (push (0, 0, memory.share (1)), 0);
  EXPECT_EQ (push (3, 0, memory.share (2)), 2); /* two digests */
  ASSERT_NE (tickets[3].error, nullptr);
  EXPECT_EQ (tickets[3].error->code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (memory.n_held, 1);
  EXPECT_EQ (push (1, 1, memory.share (10)), 1);
  EXPECT_EQ (push (2, 2, memory.share (100)), 1);
  EXPECT_TRUE (to_average (tickets[0].average) == averaging_test::as_average (dense ({ 37, 38 })));
}

TEST_F (SharedGradients, TheLastToComeAloneIsFoldedAtOnce)
{
  EXPECT_EQ (push (2, 2, memory.share (100)), 1); /* hashed, because it is added last */
  EXPECT_EQ (push (1, 1, memory.share (10)), 1);
  EXPECT_EQ (push (0, 0, memory.share (1)), 1);
  EXPECT_EQ (memory.n_held, 0);
  EXPECT_TRUE (to_average (tickets[1].average) == averaging_test::as_average (dense ({ 37, 38 })));
}

TEST_F (SharedGradients, AreLetGoOfWhenTheRoundExpires)
{
  TpsAveragingOutput output;

  push (0, 0, memory.share (1));
  tps_averaging_output_init (&output);
  tps_averaging_expire (averaging, 1000, &output);
  tps_averaging_output_clear (&output);
  ASSERT_NE (tickets[0].error, nullptr);
  EXPECT_EQ (memory.n_held, 0);
}

} /* namespace */
