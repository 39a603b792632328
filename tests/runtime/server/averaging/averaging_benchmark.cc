/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures the cost of a round without the network: two trainers push one gradient each, and both
 * wait for the average.
 *
 *   averaging_benchmark [MiB [rounds]]        default 25 MiB, 41 rounds
 *
 * GB/s counts the pushed bytes (2 gradients per round). The bound is the memcpy of one gradient,
 * which is measured between rounds. It moves as many bytes as one pass over the data does at least.
 * `cpu` is the p50 of the time of all threads in a round, which a busy machine disturbs less.
 * `wrong` counts incorrect averages; if there are any, the exit code is 1. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "runtime/server/averaging/parameter_server.h"
#include "tests/runtime/stopwatch.h"

namespace {

struct Case
{
  const char *name;
  const char *kind;
  int first;         /* the trainer that pushes first */
  bool is_staggered; /* the second gradient arrives after all work for the first is done */
  bool is_shared;    /* gradients are in memory that another process maps */
};

const Case cases[] = {
  { "in order, at once", "AverageParameterServer", 0, false, false },
  { "in order, one late", "AverageParameterServer", 0, true, false },
  { "reversed, one late", "AverageParameterServer", 1, true, false },
  { "batch, at once", "AverageBatchParameterServer", 0, false, false },
  { "batch, one late", "AverageBatchParameterServer", 0, true, false },
  { "shared, at once", "AverageParameterServer", 0, false, true },
  { "shared, one late", "AverageParameterServer", 0, true, true },
};

int n_wrong_in_all = 0;

class Answers
{
public:
  static void
  done (gpointer user_data, const TpsGradient *average, const GError *error)
  {
    Answers *self = (Answers *) user_data;
    std::lock_guard<std::mutex> guard (self->lock);

    if (error != NULL || *(const gfloat *) tps_tensor_data (&average->dense) != 1.5f)
      self->n_wrong++;
    self->n++;
    self->changed.notify_all ();
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock);

    changed.wait (guard, [this] { return n == 2; });
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

/* Replaces the memory by a buffer that looks like a mapping of another process's memory. */
void
share (TpsTensor *tensor)
{
  TpsBuffer *own = tps_buffer_ref (tensor->buffer);
  TpsShape shape = tensor->shape;

  tps_tensor_clear (tensor);
  tps_tensor_init_take (tensor, &shape,
                        tps_buffer_new_shared (tps_buffer_get_data (own), tps_buffer_get_size (own),
                                               unref_buffer, own),
                        0);
}

TpsGradient
make_gradient (gint64 n_elems, gfloat value)
{
  TpsGradient gradient = {};
  gfloat *data;

  gradient.kind = TPS_GRADIENT_DENSE;
  gradient.weight = 1;
  tps_tensor_init_1d (&gradient.dense, TPS_DTYPE_FLOAT32, n_elems);
  data = (gfloat *) tps_tensor_data (&gradient.dense);
  std::fill (data, data + n_elems, value);
  return gradient;
}

void
report (const char *name, double mib, Times times, double n_gradients, int n_wrong)
{
  std::vector<double> &wall = times.wall_ms;
  std::vector<double> &cpu = times.cpu_ms;

  times.sort ();
  double p50 = wall[wall.size () / 2];
  printf ("%-22s %8.2f %6zu %9.3f %9.3f %9.3f %9.3f %8.2f %6d\n", name, mib, wall.size (), p50,
          wall.front (), wall[wall.size () * 95 / 100], cpu[cpu.size () / 2],
          n_gradients * mib * 1.048576 / p50, n_wrong);
}

void
run_round (TpsParameterServer *server, const Case &chosen, gint64 batch, gint64 n_elems,
           Answers *answers, Times *times)
{
  TpsGradient gradients[2] = { make_gradient (n_elems, 1), make_gradient (n_elems, 2) };
  if (chosen.is_shared)
    for (TpsGradient &gradient : gradients)
      share (&gradient.dense);
  Stopwatch watch;

  for (int i = 0; i < 2; i++)
    {
      int trainer = (chosen.first + i) % 2;

      tps_parameter_server_average_gradient (server, trainer, batch, 0, &gradients[trainer], TRUE,
                                             Answers::done, answers);
      if (i == 0 && chosen.is_staggered)
        {
          struct timespec late = { 0, 20000000 };

          nanosleep (&late, NULL);
          watch = Stopwatch ();
        }
    }
  answers->wait ();
  watch.stop (times);
}

void
run_case (const Case &chosen, double mib, int n_rounds)
{
  gint64 n_elems = (gint64) (mib * (1 << 18));
  TpsWorkerPool *workers = tps_worker_pool_new ("benchmark", 2);
  TpsParameterServerOptions options = {};
  Times warm_up, times;
  Answers answers;

  options.kind = chosen.kind;
  options.n_trainers = 2;
  options.workers = workers;
  TpsParameterServer *server = tps_parameter_server_new (&options, NULL);
  for (gint64 batch = 0; batch < n_rounds + 3; batch++)
    run_round (server, chosen, batch, n_elems, &answers, batch < 3 ? &warm_up : &times);
  tps_parameter_server_free (server);
  tps_worker_pool_free (workers);
  report (chosen.name, mib, times, 2, answers.n_wrong);
  n_wrong_in_all += answers.n_wrong;
}

void
run_memcpy (double mib, int n_rounds)
{
  report ("memcpy of one", mib, time_memcpy ((size_t) (mib * (1 << 18)), n_rounds), 1, 0);
}

} // namespace

int
main (int argc, char **argv)
{
  double mib = argc > 1 ? atof (argv[1]) : 25;
  int n_rounds = argc > 2 ? atoi (argv[2]) : 41;

  if (!(mib > 0) || n_rounds < 1)
    {
      fprintf (stderr, "usage: averaging_benchmark [MiB [rounds]]\n");
      return 2;
    }
  printf ("%-22s %8s %6s %9s %9s %9s %9s %8s %6s\n", "round", "MiB", "n", "p50 ms", "min ms",
          "p95 ms", "cpu ms", "GB/s", "wrong");
  run_memcpy (mib, n_rounds);
  for (const Case &chosen : cases)
    run_case (chosen, mib, n_rounds);
  run_memcpy (mib, n_rounds);
  return n_wrong_in_all > 0;
}
