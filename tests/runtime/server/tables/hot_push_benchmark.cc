/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures a push on the CPU whose ids are all the same.
 *
 *   hot_push_benchmark [ids [rounds]]        default 100,000 ids, 21 rounds
 *
 * A table adds up the gradients as a tree, with one and two threads. The bound is a serial chain:
 * one thread that only adds the same rows one after another. `cpu` is the p50 of the time of all
 * threads. `wrong` counts incorrect rows; if there are any, the exit code is 1. */

#include <stdio.h>
#include <stdlib.h>

#include "tests/runtime/server/tables/tables.h"
#include "tests/runtime/stopwatch.h"

using namespace embedding_test;

namespace {

constexpr size_t kMaxSum = (size_t) 1 << 24; /* sums up to it are exact */

int n_wrong_in_all = 0;

void
print (const char *name, int64_t dim, Times times, int n_wrong)
{
  times.sort ();
  printf ("%-16s %6d %10.3f %10.3f %8d\n", name, (int) dim,
          times.wall_ms[times.wall_ms.size () / 2], times.cpu_ms[times.cpu_ms.size () / 2],
          n_wrong);
  n_wrong_in_all += n_wrong;
}

/* With gradients of 1 and a learning rate of 1, the sum is exact in every order. */
void
time_pushes (unsigned n_workers, const Ids &ids, const Floats &gradients, int64_t dim, int n_rounds)
{
  constexpr int64_t rows = 10;
  Store store (n_workers);
  Times times;
  int n_wrong = 0;

  n_wrong += store.create (
                 Spec ("emb", rows, (int32_t) dim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1))
             != "";
  for (int i = -1; i < n_rounds; i++) /* the first push is not measured */
    {
      Times first;
      Stopwatch watch;

      n_wrong += store.apply_rows ("emb", ids, gradients, dim) != "";
      watch.stop (i < 0 ? &first : &times);
    }
  n_wrong += store.row ("emb", TPS_DTYPE_FLOAT32, ids[0])[0]
             != -(float) ids.size () * (float) (n_rounds + 1);
  print (n_workers == 0 ? "tree, 1 thread" : "tree, 2 threads", dim, times, n_wrong);
}

void
time_chain (const Floats &gradients, size_t dim, int n_rounds)
{
  Times times;
  int n_wrong = 0;

  for (int i = 0; i < n_rounds; i++)
    {
      Floats sum (dim);
      Stopwatch watch;

      for (size_t row = 0; row < gradients.size (); row += dim)
        for (size_t d = 0; d < dim; d++)
          sum[d] += gradients[row + d];
      watch.stop (&times);
      n_wrong += sum[0] != (float) (gradients.size () / dim);
    }
  print ("serial chain", (int64_t) dim, times, n_wrong);
}

} // namespace

int
main (int argc, char **argv)
{
  size_t n_ids = argc > 1 ? strtoul (argv[1], nullptr, 10) : 100000;
  int n_rounds = argc > 2 ? (int) strtol (argv[2], nullptr, 10) : 21;

  if (n_ids < 1 || n_rounds < 1 || n_ids > kMaxSum / ((size_t) n_rounds + 1))
    {
      fprintf (stderr, "hot_push_benchmark: expected at least one id and one round, and at most "
                       "2^24 ids in all rounds and one more\n");
      return 2;
    }
  printf ("%-16s %6s %10s %10s %8s\n", "push", "dim", "ms", "cpu ms", "wrong");
  for (int64_t dim : { 16, 64 })
    {
      Ids ids (n_ids, 3);
      Floats gradients (n_ids * (size_t) dim, 1.0f);

      time_pushes (0, ids, gradients, dim, n_rounds);
      time_pushes (2, ids, gradients, dim, n_rounds);
      time_chain (gradients, (size_t) dim, n_rounds);
    }
  return n_wrong_in_all > 0;
}
