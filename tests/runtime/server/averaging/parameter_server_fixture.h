/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server with two workers, on the host or on a device, and replies for which a test may wait. */

#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "runtime/server/averaging/parameter_server.h"
#include "tests/runtime/server/averaging/gradients.h"

namespace averaging_test {

/* The reply to one call, for which a test may wait. */
class Answer
{
public:
  static void
  done (gpointer user_data, const TpsGradient *average, const GError *error)
  {
    Answer *self = (Answer *) user_data;
    std::lock_guard<std::mutex> guard (self->lock);

    self->n++;
    if (error != NULL)
      {
        self->code = error->code;
        self->message = error->message;
      }
    else
      self->average = to_average (*average);
    self->changed.notify_all ();
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock);

    changed.wait (guard, [this] { return n > 0; });
  }

  int
  count ()
  {
    std::lock_guard<std::mutex> guard (lock);

    return n;
  }

  int code = 0;
  std::string message;
  Average average;

private:
  std::mutex lock;
  std::condition_variable changed;
  int n = 0;
};

class ParameterServerTest : public testing::Test
{
protected:
  ParameterServerTest ()
  {
    workers = tps_worker_pool_new ("test", 2);
  }

  ~ParameterServerTest () override
  {
    if (server != NULL)
      tps_parameter_server_free (server);
    tps_metrics_unref (metrics);
    tps_worker_pool_free (workers);
  }

  void
  start (guint n_trainers, const char *kind = NULL, gint64 timeout_ns = 0, TpsDevice *device = NULL)
  {
    TpsParameterServerOptions options = {};

    options.kind = kind;
    options.n_trainers = n_trainers;
    options.round_timeout_ns = timeout_ns;
    options.workers = workers;
    options.device = device;
    options.metrics = metrics;
    server = tps_parameter_server_new (&options, NULL);
    ASSERT_NE (server, nullptr);
  }

  void
  push (Answer *answer, gint32 trainer, gint64 batch, gint32 param_loc,
        const Contribution &contribution, bool may_wait = true)
  {
    TpsGradient gradient = to_gradient (contribution);

    tps_parameter_server_average_gradient (server, trainer, batch, param_loc, &gradient, may_wait,
                                           Answer::done, answer);
    EXPECT_EQ (gradient.kind, TPS_GRADIENT_NONE);
  }

  TpsWorkerPool *workers;
  TpsMetrics *metrics = tps_metrics_new (NULL, NULL);
  TpsParameterServer *server = NULL;
};

} // namespace averaging_test
