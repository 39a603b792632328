/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/reports.h"

#define MAX_STRAGGLERS 100

/* A trainer whose contribution is missing in open rounds. */
typedef struct
{
  gint32 trainer;
  guint n_rounds;
  gint64 longest_ns;
} Straggler;

static void
add_round (TpsJsonWriter *json, const TpsOpenRound *round)
{
  tps_json_add_uint (json, "arrived", round->n_arrived);
  tps_json_open (json, "missing", '[');
  for (guint i = 0; i < round->n_missing; i++)
    tps_json_add_int (json, NULL, round->missing[i]);
  tps_json_close (json, ']');
  tps_json_add_seconds (json, "age_s", round->age_ns);
  tps_json_add_seconds (json, "remaining_s", round->remaining_ns);
}

static void
add_averaging (TpsJsonWriter *json, const TpsRoundsReport *report)
{
  const TpsAveragingStatus *status = &report->averaging;
  guint64 n_waiting = 0;

  tps_json_open (json, "averaging", '{');
  tps_json_add_uint (json, "trainers", status->n_trainers);
  tps_json_add_seconds (json, "timeout_s", status->round_timeout_ns);
  if (status->batch >= 0)
    tps_json_add_int (json, "batch", status->batch);
  else
    tps_json_add_null (json, "batch");
  tps_json_add_uint (json, "open", status->n_open);
  tps_json_open (json, "rounds", '[');
  for (guint i = 0; i < status->n_listed; i++)
    {
      tps_json_open (json, NULL, '{');
      tps_json_add_int (json, "batch", report->rounds[i].batch);
      tps_json_add_int (json, "param_loc", report->rounds[i].param_loc);
      add_round (json, &report->rounds[i]);
      tps_json_close (json, '}');
      n_waiting += report->rounds[i].n_arrived;
    }
  tps_json_close (json, ']');
  tps_json_add_uint (json, "waiting", n_waiting);
  tps_json_close (json, '}');
}

static void
add_model (TpsJsonWriter *json, const TpsUpdatingStatus *status)
{
  tps_json_open (json, "model", '{');
  tps_json_add_uint (json, "trainers", status->n_trainers);
  tps_json_add_uint (json, "min_trainers", status->min_trainers);
  tps_json_add_seconds (json, "timeout_s", status->round_timeout_ns);
  tps_json_add_int (json, "version", status->version);
  tps_json_add_bool (json, "is_updating", status->is_updating);
  if (status->has_round)
    {
      tps_json_open (json, "round", '{');
      add_round (json, &status->round);
      tps_json_close (json, '}');
    }
  else
    tps_json_add_null (json, "round");
  tps_json_close (json, '}');
}

/* ---- stragglers ----------------------------------------------------------------------------- */

static void
note_missing (GHashTable *by_trainer, const TpsOpenRound *round)
{
  for (guint i = 0; i < round->n_missing; i++)
    {
      gpointer key = GINT_TO_POINTER (round->missing[i]);
      Straggler *straggler = g_hash_table_lookup (by_trainer, key);

      if (straggler == NULL)
        {
          straggler = g_new0 (Straggler, 1);
          straggler->trainer = round->missing[i];
          g_hash_table_insert (by_trainer, key, straggler);
        }
      straggler->n_rounds++;
      straggler->longest_ns = MAX (straggler->longest_ns, round->age_ns);
    }
}

static gint
compare_stragglers (gconstpointer a, gconstpointer b)
{
  const Straggler *left = *(const Straggler *const *) a;
  const Straggler *right = *(const Straggler *const *) b;

  if (left->longest_ns != right->longest_ns)
    return left->longest_ns > right->longest_ns ? -1 : 1;
  return left->trainer < right->trainer ? -1 : left->trainer > right->trainer;
}

static void
add_stragglers (TpsJsonWriter *json, const TpsRoundsReport *report)
{
  g_autoptr (GHashTable) by_trainer = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_autoptr (GPtrArray) sorted = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;

  for (guint i = 0; i < report->averaging.n_listed; i++)
    note_missing (by_trainer, &report->rounds[i]);
  if (report->model.has_round)
    note_missing (by_trainer, &report->model.round);
  g_hash_table_iter_init (&iter, by_trainer);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    g_ptr_array_add (sorted, value);
  g_ptr_array_sort (sorted, compare_stragglers);
  tps_json_open (json, "stragglers", '[');
  for (guint i = 0; i < sorted->len && i < MAX_STRAGGLERS; i++)
    {
      const Straggler *straggler = sorted->pdata[i];

      tps_json_open (json, NULL, '{');
      tps_json_add_int (json, "trainer", straggler->trainer);
      tps_json_add_uint (json, "rounds", straggler->n_rounds);
      tps_json_add_seconds (json, "longest_s", straggler->longest_ns);
      tps_json_close (json, '}');
    }
  tps_json_close (json, ']');
}

void
tps_report_rounds (TpsHttpRequest *request, gpointer data)
{
  g_autofree TpsRoundsReport *report = tps_reports_get_rounds (data);
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  if (report->has_averaging)
    add_averaging (&json, report);
  else
    tps_json_add_null (&json, "averaging");
  if (report->has_model)
    add_model (&json, &report->model);
  else
    tps_json_add_null (&json, "model");
  add_stragglers (&json, report);
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}
