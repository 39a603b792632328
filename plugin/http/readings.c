/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/readings.h"

const TpsFamilyReading *
tps_readings_find (const TpsReading *reading, const gchar *name)
{
  guint n_families;
  const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);

  for (guint i = 0; i < n_families; i++)
    if (g_str_equal (families[i].family->name, name))
      return &families[i];
  return NULL;
}

const TpsCountName tps_method_counts[TPS_N_METHOD_COUNTS] = {
  [TPS_COUNT_CALLS] = { "requests_total", "calls" },
  [TPS_COUNT_FAILURES] = { "requests_failed_total", "failures" },
};

const TpsCountName tps_table_counts[TPS_N_TABLE_COUNTS] = {
  [TPS_COUNT_LOOKUPS] = { "table_lookups_total", "lookups" },
  [TPS_COUNT_LOOKUP_ROWS] = { "table_lookup_rows_total", "lookup_rows" },
  [TPS_COUNT_PUSHES] = { "table_pushes_total", "pushes" },
  [TPS_COUNT_PUSH_ROWS] = { "table_push_rows_total", "push_rows" },
};

GHashTable *
tps_readings_index (const TpsReading *reading, const gchar *name)
{
  const TpsFamilyReading *family = tps_readings_find (reading, name);
  GHashTable *index;

  if (family == NULL)
    return NULL;
  index = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < family->samples->len; i++)
    {
      TpsSample *sample = &g_array_index (family->samples, TpsSample, i);

      if (sample->values[0] != NULL)
        g_hash_table_insert (index, (gpointer) (gsize) sample->values[0], sample);
    }
  return index;
}

guint64
tps_readings_sum (const TpsReading *reading, const gchar *name)
{
  const TpsFamilyReading *family = tps_readings_find (reading, name);
  gint64 sum = 0;

  for (guint i = 0; family != NULL && i < family->samples->len; i++)
    sum += g_array_index (family->samples, TpsSample, i).number;
  return (guint64) MAX (sum, 0);
}
