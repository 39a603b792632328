/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The values of scatter() in tests/oracle/make_vectors.py, and the numbers of the objects that it
 * fills. */

#pragma once

#include <cstdint>
#include <vector>

constexpr int64_t SCATTER_FIRST_TABLE = 200;
constexpr int64_t SAMPLE_OF_PARAMETERS = 97; /* every 97th element is in the oracle's vectors */
constexpr int64_t SAMPLE_OF_TABLES = 29;
constexpr double PARAMETER_BOUND = 0.08;

inline void
scatter (float *values, int64_t count, int64_t number, double bound)
{
  for (int64_t i = 0; i < count; i++)
    {
      uint64_t mixed = static_cast<uint64_t> (i + number * 1000003) * 1540483477 % (1ull << 32);

      mixed = (mixed ^ mixed >> 15) * 1540483477 % (1ull << 32);
      mixed = (mixed ^ mixed >> 13) * 1540483477 % (1ull << 32) / 256;
      values[i] = static_cast<float> ((static_cast<double> (mixed) / (1 << 23) - 1) * bound);
    }
}

inline std::vector<float>
scatter (int64_t count, int64_t number, double bound)
{
  std::vector<float> values (static_cast<size_t> (count));

  scatter (values.data (), count, number, bound);
  return values;
}

/* Returns every `stride`th value. */
inline std::vector<float>
sample (const float *values, int64_t count, int64_t stride)
{
  std::vector<float> taken;

  for (int64_t i = 0; i < count; i += stride)
    taken.push_back (values[i]);
  return taken;
}
