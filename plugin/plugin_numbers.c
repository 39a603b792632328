/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/plugin_numbers.h"

#include "runtime/base/trace.h"
#include "runtime/base/version.h"
#include "runtime/server/model/model_capture.h"
#include "runtime/server/tables/table_snapshot.h"

static const TpsFamily build_info = {
  .name = "build_info",
  .help = "1, with the version of the server.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "version" },
};

static const TpsFamily worker_threads = {
  .name = "worker_threads",
  .help = "Threads that run jobs of calls.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily waiting_jobs = {
  .name = "worker_jobs_waiting",
  .help = "Jobs that wait for a worker.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily running_jobs = {
  .name = "worker_jobs_running",
  .help = "Jobs that workers are running.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily ended_jobs = {
  .name = "worker_jobs_total",
  .help = "Jobs that workers have run.",
};

static const TpsFamily window_clients = {
  .name = "push_window_clients",
  .help = "Clients whose newest push ids are remembered, by their target: tables or model.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "window" },
};

static const TpsFamily window_pushes = {
  .name = "push_window_pushes",
  .help = "Push ids that are remembered.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "window" },
};

static const TpsFamily window_floors = {
  .name = "push_window_floors",
  .help = "Clients for which only the highest push id is remembered.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "window" },
};

static const TpsFamily transfers = {
  .name = "transfers",
  .help = "Chunked transfers that are under way or kept for their clients.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily rendezvous_keys = {
  .name = "rendezvous_keys",
  .help = "Keys of the rendezvous store.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily rendezvous_waiters = {
  .name = "rendezvous_waiters",
  .help = "Calls that wait for a key of the rendezvous store.",
  .kind = TPS_FAMILY_GAUGE,
};

static const TpsFamily dropped_events = {
  .name = "trace_events_dropped_total",
  .help = "Events that the process could not log, because too many were waiting to be written.",
};

static void
collect_events (TpsReading *reading)
{
  TpsTraceStats stats;

  tps_trace_get_stats (&stats);
  tps_reading_add (reading, &dropped_events, NULL, NULL, (gint64) stats.n_dropped);
}

static void
collect_workers (TpsReading *reading, const TpsWorkerPool *workers)
{
  TpsWorkerLoad load;

  tps_worker_pool_get_load (workers, &load);
  tps_reading_add (reading, &waiting_jobs, NULL, NULL, (gint64) load.n_waiting);
  tps_reading_add (reading, &running_jobs, NULL, NULL, (gint64) load.n_running);
  tps_reading_add (reading, &ended_jobs, NULL, NULL, (gint64) load.n_ended);
}

static void
collect_window (TpsReading *reading, const gchar *name, TpsPushWindow *window)
{
  TpsPushWindowSize size;

  tps_push_window_get_size (window, &size);
  tps_reading_add (reading, &window_clients, name, NULL, (gint64) size.n_clients);
  tps_reading_add (reading, &window_pushes, name, NULL, (gint64) size.n_pushes);
  tps_reading_add (reading, &window_floors, name, NULL, (gint64) size.n_floors);
}

static void
collect_rendezvous (TpsReading *reading, TpsRendezvous *rendezvous)
{
  guint n_keys, n_waiters;

  tps_rendezvous_get_size (rendezvous, &n_keys, &n_waiters);
  tps_reading_add (reading, &rendezvous_keys, NULL, NULL, n_keys);
  tps_reading_add (reading, &rendezvous_waiters, NULL, NULL, n_waiters);
}

void
tps_plugin_numbers_collect (TpsReading *reading, gpointer user_data)
{
  const TpsPluginParts *parts = user_data;

  tps_reading_add (reading, &build_info, TPS_VERSION, NULL, 1);
  tps_reading_add (reading, &worker_threads, NULL, NULL,
                   tps_worker_pool_get_n_threads (parts->workers));
  collect_workers (reading, parts->workers);
  collect_events (reading);
  tps_reading_add (reading, &transfers, NULL, NULL, tps_chunks_get_n_transfers (parts->chunks));
  if (parts->tables != NULL)
    collect_window (reading, "tables", tps_table_store_get_pushes (parts->tables));
  if (parts->model != NULL)
    collect_window (reading, "model", tps_model_server_get_pushes (parts->model));
  if (parts->rendezvous != NULL)
    collect_rendezvous (reading, parts->rendezvous);
}
