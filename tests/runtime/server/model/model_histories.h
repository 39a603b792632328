/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Histories: random pushes and resets from several threads on one model, and the records that the
 * observer of the model received. */

#pragma once

#include <cstdlib>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/server/model/model_server.h"
#include "tests/runtime/server/log/commands.h"
#include "tests/runtime/server/model/models.h"

namespace updating_test {

inline const Shapes kShapes = { { 5 }, { 3, 7 }, { 2500 } };

inline unsigned long
number_of (const char *variable, unsigned long otherwise)
{
  const char *text = getenv (variable);

  return text != nullptr ? strtoul (text, nullptr, 10) : otherwise;
}

/* A server that records its commands. If the sequencer is `shared`, the observer of that sequencer
 * must store the records. */
class Server
{
public:
  explicit Server (guint n_trainers, TpsSequencer *shared = nullptr)
      : workers (tps_worker_pool_new ("model", 2)), owns_sequencer_ (shared == nullptr)
  {
    TpsModelServerOptions options {};

    sequencer = shared != nullptr ? shared : make_sequencer ();
    options.n_trainers = n_trainers;
    options.min_trainers = 1;
    options.round_timeout_ns = 5 * 1000 * 1000;
    options.max_staleness = 1000;
    options.workers = workers;
    options.sequencer = sequencer;
    server = tps_model_server_new (&options, nullptr);
  }

  ~Server ()
  {
    tps_model_server_free (server);
    tps_worker_pool_free (workers);
    if (owns_sequencer_)
      tps_sequencer_free (sequencer);
  }

  void
  init (std::mt19937 *random)
  {
    static const TpsOptimizerKind kinds[] = { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_ADAGRAD,
                                              TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_OPTIMIZER_ADAM,
                                              TPS_OPTIMIZER_FTRL };
    TpsOptimizerSpec optimizer = tps_optimizer_spec (kinds[(*random) () % 5], 0.1);
    auto parameters = to_parameters (kShapes, draw_values (kShapes, random));

    tps_model_server_init_model (server, parameters.data (),
                                 static_cast<guint> (parameters.size ()), &optimizer, nullptr);
  }

  /* Returns the error's code, or 0. Returns the version of the reply in `version`. */
  int
  push (gint32 trainer, const Values &values, const char *client, gint64 sequence,
        gint64 *version = nullptr)
  {
    auto gradients = to_tensors (kShapes, values);
    TpsModelPush push = {};
    Answer answer;

    push.trainer = trainer;
    push.n_gradients = static_cast<guint> (gradients.size ());
    push.gradients = gradients.data ();
    push.client = client;
    push.sequence = sequence;
    push.may_wait = TRUE;
    tps_model_server_update_and_fetch (server, &push, Answer::done, &answer);
    answer.wait ();
    if (version != nullptr)
      *version = answer.version;
    return answer.code;
  }

  /* Returns the version and the values. The version is 0 if there is no model. */
  std::pair<gint64, Values>
  model ()
  {
    TpsModelVersion *version = tps_model_server_get_model (server, nullptr);
    std::pair<gint64, Values> result;

    if (version == nullptr)
      return result;
    result = { version->version, to_values (version) };
    tps_model_version_unref (version);
    return result;
  }

  TpsWorkerPool *workers;
  TpsSequencer *sequencer;
  TpsModelServer *server;
  std::vector<std::unique_ptr<thriftps::LoggedCommand>> records;

private:
  TpsSequencer *
  make_sequencer ()
  {
    TpsSequencerOptions options {};

    options.workers = workers;
    options.user_data = this;
    options.observe = [] (gpointer self, TpsOrdered *ordered) {
      static_cast<Server *> (self)->records.emplace_back (
          new thriftps::LoggedCommand (ordered->command));
      tps_ordered_release (ordered, nullptr);
    };
    return tps_sequencer_new (&options);
  }

  bool owns_sequencer_;
};

inline void
train (Server *server, gint32 trainer, uint32_t seed)
{
  std::mt19937 random (seed);
  std::string client = "trainer" + std::to_string (trainer);

  for (gint64 step = 1; step <= 8; step++)
    {
      Values gradients = draw_values (kShapes, &random);

      if (random () % 12 == 0)
        tps_model_server_reset_state (server->server, nullptr);
      if (random () % 4 == 0)
        server->init (&random);
      server->push (trainer, gradients, random () % 2 == 0 ? client.c_str () : nullptr, step);
    }
}

} // namespace updating_test
