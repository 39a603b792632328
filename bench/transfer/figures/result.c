/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/figures/result.h"

#include "bench/report/percentile.h"

static GArray *
doubles_new (void)
{
  return g_array_new (FALSE, FALSE, sizeof (gdouble));
}

static void
result_clear (gpointer data)
{
  TpsTransferResult *result = data;

  g_array_unref (result->ms);
  g_array_unref (result->gb_per_s);
  g_array_unref (result->calls_per_s);
}

void
tps_transfer_row_results_init (TpsTransferRowResults *results, const TpsTransferRow *row)
{
  results->row = *row;
  results->results = g_array_new (FALSE, FALSE, sizeof (TpsTransferResult));
  g_array_set_clear_func (results->results, result_clear);
}

void
tps_transfer_row_results_clear (TpsTransferRowResults *results)
{
  g_clear_pointer (&results->results, g_array_unref);
}

static TpsTransferResult *
get_result (TpsTransferRowResults *results, const TpsTransferSystemSpec *spec)
{
  TpsTransferResult result = { .spec = spec };

  for (guint i = 0; i < results->results->len; i++)
    if (g_array_index (results->results, TpsTransferResult, i).spec == spec)
      return &g_array_index (results->results, TpsTransferResult, i);
  result.ms = doubles_new ();
  result.gb_per_s = doubles_new ();
  result.calls_per_s = doubles_new ();
  g_array_append_val (results->results, result);
  return &g_array_index (results->results, TpsTransferResult, results->results->len - 1);
}

/* Where calls come one by one, what starts and ends the run is not theirs: the typical call counts. */
static gdouble
get_seconds (const TpsTransferRow *row, const TpsTransferTimes *times)
{
  if (row->n_connections == 1 && row->n_in_flight == 1)
    return tps_percentile (times->ms, 50) / 1e3 * row->n_calls;
  return times->seconds;
}

void
tps_transfer_row_results_add (TpsTransferRowResults *results, const TpsTransferSystemSpec *spec,
                              const TpsTransferTimes *times)
{
  TpsTransferResult *result = get_result (results, spec);
  gdouble n_bytes = tps_transfer_row_get_bytes (&results->row);
  gdouble seconds = get_seconds (&results->row, times);
  gdouble gb_per_s = n_bytes / seconds / 1e9;
  gdouble calls_per_s = results->row.n_calls / seconds;

  g_array_append_vals (result->ms, times->ms->data, times->ms->len);
  g_array_append_val (result->gb_per_s, gb_per_s);
  g_array_append_val (result->calls_per_s, calls_per_s);
  result->n_bytes += n_bytes;
  result->client_cpu_s += times->client_cpu;
  result->server_cpu_s += times->server_cpu;
}

const TpsTransferResult *
tps_transfer_row_results_get (const TpsTransferRowResults *results, guint i)
{
  return &g_array_index (results->results, TpsTransferResult, i);
}

const TpsTransferResult *
tps_transfer_row_results_find (const TpsTransferRowResults *results, const gchar *name,
                               const gchar *transport)
{
  for (guint i = 0; i < results->results->len; i++)
    {
      const TpsTransferResult *result = tps_transfer_row_results_get (results, i);

      if (g_str_equal (result->spec->name, name)
          && g_str_equal (result->spec->transport, transport))
        return result;
    }
  return NULL;
}

gchar *
tps_transfer_result_get_title (const TpsTransferRowResults *results,
                               const TpsTransferResult *result)
{
  g_autofree gchar *row = tps_transfer_row_to_title (&results->row);

  return g_strdup_printf ("%s %s", row, result->spec->transport);
}
