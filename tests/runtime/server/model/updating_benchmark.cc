/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures the cost of an update without the network: the trainers push one gradient each, and all
 * wait for the new model.
 *
 *   updating_benchmark [MiB [rounds [trainers]]]        default 16 MiB, 41 rounds, 3 trainers
 *
 * The bound is the memcpy of one model, measured before and after the rounds. An update reads one
 * gradient per trainer and the old model, and writes the new model. `cpu` is the p50 of the time of
 * all threads in a round, which a busy machine disturbs less. `wrong` counts incorrect models; if
 * there are any, the exit code is 1. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/server/model/model_server.h"
#include "tests/runtime/stopwatch.h"

namespace {

class Answers
{
public:
  static void
  done (gpointer user_data, TpsModelVersion *model, const GError *error)
  {
    Answers *self = (Answers *) user_data;
    std::lock_guard<std::mutex> guard (self->lock);

    /* With learning rate 1 and mean gradient 1, each version is one less than its predecessor.
     * Version 1 is 0. */
    if (error != NULL
        || *(const gfloat *) tps_tensor_data (&model->parameters[0].tensor)
               != (gfloat) (1 - model->version))
      self->n_wrong++;
    self->n++;
    self->changed.notify_all ();
  }

  void
  wait (int n_expected)
  {
    std::unique_lock<std::mutex> guard (lock);

    changed.wait (guard, [&] { return n == n_expected; });
    n = 0;
  }

  int n_wrong = 0;

private:
  std::mutex lock;
  std::condition_variable changed;
  int n = 0;
};

void
unref_buffer (gpointer buffer)
{
  tps_buffer_unref ((TpsBuffer *) buffer);
}

/* Returns a tensor whose memory looks like a mapping of another process's memory. */
TpsTensor
make_tensor (gint64 n_elems, gfloat value)
{
  TpsTensor tensor = {}, shared = {};
  gfloat *data;

  tps_tensor_init_1d (&tensor, TPS_DTYPE_FLOAT32, n_elems);
  data = (gfloat *) tps_tensor_data (&tensor);
  std::fill (data, data + n_elems, value);
  tps_tensor_init_take (&shared, &tensor.shape,
                        tps_buffer_new_shared (data, (gsize) n_elems * sizeof *data, unref_buffer,
                                               tps_buffer_ref (tensor.buffer)),
                        0);
  tps_tensor_clear (&tensor);
  return shared;
}

void
report (const char *name, double mib, Times times, int n_wrong)
{
  std::vector<double> &wall = times.wall_ms;
  std::vector<double> &cpu = times.cpu_ms;

  times.sort ();
  printf ("%-22s %8.2f %6zu %9.3f %9.3f %9.3f %9.3f %6d\n", name, mib, wall.size (),
          wall[wall.size () / 2], wall.front (), wall[wall.size () * 95 / 100],
          cpu[cpu.size () / 2], n_wrong);
}

void
run_memcpy (double mib, int n_rounds)
{
  report ("memcpy of one", mib, time_memcpy ((size_t) (mib * (1 << 18)), n_rounds), 0);
}

TpsModelServer *
make_server (gint64 n_elems, int n_trainers, TpsWorkerPool *workers)
{
  TpsModelServerOptions options = {};
  TpsOptimizerSpec optimizer = {};
  TpsNamedTensor parameter = { g_strdup ("weights"), make_tensor (n_elems, 0) };

  options.n_trainers = (guint) n_trainers;
  options.workers = workers;
  optimizer.kind = TPS_OPTIMIZER_SGD;
  optimizer.learning_rate = 1;
  TpsModelServer *server = tps_model_server_new (&options, NULL);
  tps_model_server_init_model (server, &parameter, 1, &optimizer, NULL);
  return server;
}

void
run_round (TpsModelServer *server, int n_trainers, gint64 n_elems, gint64 sequence,
           Answers *answers, Times *times)
{
  std::vector<TpsTensor> gradients;

  for (int i = 0; i < n_trainers; i++)
    gradients.push_back (make_tensor (n_elems, 1));
  Stopwatch watch;
  for (int i = 0; i < n_trainers; i++)
    {
      TpsModelPush push = {};
      char client[32];

      snprintf (client, sizeof client, "trainer%d", i);
      push.trainer = i;
      push.n_gradients = 1;
      push.gradients = &gradients[(size_t) i];
      push.client = client;
      push.sequence = sequence;
      push.may_wait = TRUE;
      tps_model_server_update_and_fetch (server, &push, Answers::done, answers);
    }
  answers->wait (n_trainers);
  watch.stop (times);
}

int
run_updates (double mib, int n_rounds, int n_trainers)
{
  gint64 n_elems = (gint64) (mib * (1 << 18));
  TpsWorkerPool *workers = tps_worker_pool_new ("benchmark", 2);
  TpsModelServer *server = make_server (n_elems, n_trainers, workers);
  Times warm_up, times;
  Answers answers;

  for (gint64 i = 0; i < n_rounds + 3; i++)
    run_round (server, n_trainers, n_elems, i, &answers, i < 3 ? &warm_up : &times);
  tps_model_server_free (server);
  tps_worker_pool_free (workers);
  report ("update", mib, times, answers.n_wrong);
  return answers.n_wrong;
}

} // namespace

int
main (int argc, char **argv)
{
  double mib = argc > 1 ? atof (argv[1]) : 16;
  int n_rounds = argc > 2 ? atoi (argv[2]) : 41;
  int n_trainers = argc > 3 ? atoi (argv[3]) : 3;

  if (!(mib > 0) || n_rounds < 1 || n_trainers < 1)
    {
      fprintf (stderr, "usage: updating_benchmark [MiB [rounds [trainers]]]\n");
      return 2;
    }
  printf ("%-22s %8s %6s %9s %9s %9s %9s %6s\n", "", "MiB", "n", "p50 ms", "min ms", "p95 ms",
          "cpu ms", "wrong");
  run_memcpy (mib, n_rounds);
  int n_wrong = run_updates (mib, n_rounds, n_trainers);
  run_memcpy (mib, n_rounds);
  return n_wrong > 0;
}
