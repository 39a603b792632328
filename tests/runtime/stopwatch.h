/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measurements for the benchmarks without the network, and memcpy as the bound for comparison. */

#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include <time.h>

/* The times of several equal rounds. */
struct Times
{
  std::vector<double> wall_ms;
  std::vector<double> cpu_ms; /* the processor time of all threads */

  void
  sort ()
  {
    std::sort (wall_ms.begin (), wall_ms.end ());
    std::sort (cpu_ms.begin (), cpu_ms.end ());
  }
};

/* A stopwatch that starts at its construction. */
class Stopwatch
{
public:
  void
  stop (Times *times) const
  {
    times->wall_ms.push_back (read_ms (CLOCK_MONOTONIC) - wall_ms_);
    times->cpu_ms.push_back (read_ms (CLOCK_PROCESS_CPUTIME_ID) - cpu_ms_);
  }

private:
  static double
  read_ms (clockid_t clock)
  {
    struct timespec now;

    clock_gettime (clock, &now);
    return static_cast<double> (now.tv_sec) * 1e3 + static_cast<double> (now.tv_nsec) / 1e6;
  }

  double wall_ms_ = read_ms (CLOCK_MONOTONIC);
  double cpu_ms_ = read_ms (CLOCK_PROCESS_CPUTIME_ID);
};

/* Measures copies of `n_elems` floats from memory to memory. */
inline Times
time_memcpy (size_t n_elems, int n_rounds)
{
  std::vector<float> from (n_elems, 1), to (n_elems, 2);
  Times times;

  for (int i = 0; i < n_rounds; i++)
    {
      Stopwatch watch;

      std::memcpy (to.data (), from.data (), n_elems * sizeof (float));
      watch.stop (&times);
    }
  return times;
}
