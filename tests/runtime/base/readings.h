// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Functions that read counters and gauges, for tests.

#pragma once

#include <string>

#include "runtime/base/counters.h"

namespace thriftps_test {

// Calls func (family, sample) for each number.
template <typename Func>
void
ForEachNumber (TpsCounters *counters, Func func)
{
  g_autoptr (TpsReading) reading = tps_counters_read (counters);
  guint n_families;
  const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);
  for (guint i = 0; i < n_families; i++)
    for (guint j = 0; j < families[i].samples->len; j++)
      func (*families[i].family, g_array_index (families[i].samples, TpsSample, j));
}

// Returns the sum over the series of a family that have `value` as their first or second label
// (NULL = all series), or -1 if there is no such series.
inline gint64
ReadNumber (TpsCounters *counters, const char *name, const char *value = nullptr)
{
  gint64 sum = -1;
  ForEachNumber (counters, [&] (const TpsFamily &family, const TpsSample &sample) {
    if (g_str_equal (family.name, name)
        && (value == nullptr || g_strcmp0 (sample.values[0], value) == 0
            || g_strcmp0 (sample.values[1], value) == 0))
      sum = MAX (sum, 0) + sample.number;
  });
  return sum;
}

// Returns one line per number.
inline std::string
ListNumbers (TpsCounters *counters)
{
  std::string text;
  ForEachNumber (counters, [&] (const TpsFamily &family, const TpsSample &sample) {
    text += std::string (family.name) + "{" + sample.labels + "} " + std::to_string (sample.number)
            + "\n";
  });
  return text;
}

} // namespace thriftps_test
