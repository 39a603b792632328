/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/plugin.h"

#include <string.h>

#include "plugin/service/durability_service.h"
#include "plugin/service/memory_service.h"
#include "plugin/service/session_service.h"
#include "plugin/access/access.h"
#include "plugin/host/processor.h"
#include "plugin/server/server.h"
#include "runtime/machine/machine.h"
#include "runtime/base/error.h"
#include "runtime/base/exposition.h"
#include "runtime/base/process_numbers.h"
#include "runtime/base/sized.h"
#include "runtime/base/trace.h"
#include "runtime/server/quota/quotas.h"

/* The limit of the common segments of averages, and separately of models. It includes segments
 * that are kept for reuse. Clients that do not return segments can hold no more memory than
 * this. */
#define MAX_COMMON_BYTES ((gsize) 512 << 20)
#define MIN_COMMON_BYTES ((gsize) 1 << 20) /* a copy of fewer bytes stays in the caches */
#define MAX_KEPT_BYTES ((gsize) 256 << 20) /* of the model server's buffers, kept for reuse */

typedef enum
{
  SERVES_NODE = 1 << 0,
  SERVES_PARAMETER_SERVER = 1 << 1,
  SERVES_EMBEDDING_TABLE = 1 << 2,
  SERVES_RENDEZVOUS = 1 << 3,
} Serves;

/* Names of the services, in the order of the bits above. */
static const gchar *const service_names[] = { "Node", "ParameterServer", "EmbeddingTable",
                                              "Rendezvous", NULL };

void
tps_plugin_add_service (TpsPlugin *plugin, const TpsService *service)
{
  TpsService known;

  TPS_SIZED_COPY (known, service);
  g_array_append_val (plugin->services, known);
  g_ptr_array_set_size (plugin->service_names, 0);
  for (guint i = 0; i < plugin->services->len; i++)
    g_ptr_array_add (plugin->service_names,
                     (gpointer) (guintptr) g_array_index (plugin->services, TpsService, i).name);
  g_ptr_array_add (plugin->service_names, NULL);
  plugin->node.services = (const gchar *const *) plugin->service_names->pdata;
  /* A call in chunks can reach these services through a processor. Servers have separate
   * dispatchers. Errors are ignored here: the creation of a processor or server reports them, for
   * example a duplicate service. */
  tps_chunks_set_services (plugin->chunks,
                           (const TpsService *) (gconstpointer) plugin->services->data,
                           plugin->services->len, NULL, NULL);
}

static void
add_service (TpsPlugin *plugin, TpsService service)
{
  tps_plugin_add_service (plugin, &service);
}

static gboolean
may_serve (gpointer durable, GError **error)
{
  return tps_durable_check (durable, error);
}

/* Adds a service whose state is durable if there is a data directory. */
static void
add_lasting_service (TpsPlugin *plugin, TpsService service)
{
  if (plugin->durable != NULL)
    {
      plugin->lasting = (TpsServiceHooks) { .may_serve = may_serve,
                                            .gate = plugin->durable,
                                            .has_log = TRUE };
      service.hooks = &plugin->lasting;
    }
  add_service (plugin, service);
}

static void
add_services (TpsPlugin *plugin)
{
  if (plugin->serves & SERVES_PARAMETER_SERVER)
    add_lasting_service (plugin, tps_parameter_server_service (&plugin->parameter_servers));
  if (plugin->serves & SERVES_EMBEDDING_TABLE)
    add_lasting_service (plugin, tps_embedding_table_service (plugin->embedding));
  if (plugin->serves & SERVES_RENDEZVOUS)
    add_service (plugin, tps_rendezvous_service (plugin->rendezvous));
  if (plugin->durable != NULL)
    add_service (plugin, tps_durability_service (plugin->durable));
  add_service (plugin, tps_node_service (&plugin->node));
  add_service (plugin, tps_memory_service ());
  add_service (plugin, tps_session_service ());
  add_service (plugin, tps_chunk_service (plugin->chunks));
}

/* ---- metrics -------------------------------------------------------------------------------- */

static const TpsFamily build_info = TPS_FAMILY (
    GAUGE, "build_info", "1, with the version of the server.", .labels = { "version" });
static const TpsFamily worker_threads = TPS_FAMILY (GAUGE, "worker_threads",
                                                    "Threads that run jobs of calls.");
static const TpsFamily waiting_jobs = TPS_FAMILY (GAUGE, "worker_jobs_waiting",
                                                  "Jobs that wait for a worker.");
static const TpsFamily running_jobs = TPS_FAMILY (GAUGE, "worker_jobs_running",
                                                  "Jobs that workers are running.");
static const TpsFamily ended_jobs = TPS_FAMILY (COUNTER, "worker_jobs_total",
                                                "Jobs that workers have run.");
static const TpsFamily window_clients = TPS_FAMILY (
    GAUGE, "push_window_clients",
    "Clients whose newest push ids are remembered, by their target: tables or model.",
    .labels = { "window" });
static const TpsFamily window_pushes = TPS_FAMILY (
    GAUGE, "push_window_pushes", "Push ids that are remembered.", .labels = { "window" });
static const TpsFamily window_floors = TPS_FAMILY (
    GAUGE, "push_window_floors", "Clients for which only the highest push id is remembered.",
    .labels = { "window" });
static const TpsFamily transfers = TPS_FAMILY (
    GAUGE, "transfers", "Chunked transfers that are under way or kept for their clients.");
static const TpsFamily rendezvous_keys = TPS_FAMILY (GAUGE, "rendezvous_keys",
                                                     "Keys of the rendezvous store.");
static const TpsFamily rendezvous_waiters = TPS_FAMILY (
    GAUGE, "rendezvous_waiters", "Calls that wait for a key of the rendezvous store.");
static const TpsFamily dropped_events = TPS_FAMILY (
    COUNTER, "trace_events_dropped_total",
    "Events that the process could not log, because too many were waiting to be written.");

static void
collect_window (TpsReading *reading, const gchar *name, TpsPushWindow *window)
{
  TpsPushWindowSize size;

  tps_push_window_get_size (window, &size);
  tps_reading_add (reading, &window_clients, name, NULL, (gint64) size.n_clients);
  tps_reading_add (reading, &window_pushes, name, NULL, (gint64) size.n_pushes);
  tps_reading_add (reading, &window_floors, name, NULL, (gint64) size.n_floors);
}

/* A TpsCollect; `user_data` is the plugin. */
static void
collect_numbers (TpsReading *reading, gpointer user_data)
{
  const TpsPlugin *plugin = user_data;
  TpsModelServer *model = plugin->parameter_servers.updating;
  TpsWorkerLoad load;
  TpsTraceStats stats;
  guint n_keys, n_waiters;

  tps_worker_pool_get_load (plugin->workers, &load);
  tps_trace_get_stats (&stats);
  tps_reading_add (reading, &build_info, TPS_VERSION, NULL, 1);
  tps_reading_add (reading, &worker_threads, NULL, NULL,
                   tps_worker_pool_get_n_threads (plugin->workers));
  tps_reading_add (reading, &waiting_jobs, NULL, NULL, (gint64) load.n_waiting);
  tps_reading_add (reading, &running_jobs, NULL, NULL, (gint64) load.n_running);
  tps_reading_add (reading, &ended_jobs, NULL, NULL, (gint64) load.n_ended);
  tps_reading_add (reading, &dropped_events, NULL, NULL, (gint64) stats.n_dropped);
  tps_reading_add (reading, &transfers, NULL, NULL, tps_chunks_get_n_transfers (plugin->chunks));
  if (plugin->tables != NULL)
    collect_window (reading, "tables", plugin->tables->pushes);
  if (model != NULL)
    collect_window (reading, "model", tps_model_server_get_pushes (model));
  if (plugin->rendezvous != NULL)
    {
      tps_rendezvous_get_size (plugin->rendezvous, &n_keys, &n_waiters);
      tps_reading_add (reading, &rendezvous_keys, NULL, NULL, n_keys);
      tps_reading_add (reading, &rendezvous_waiters, NULL, NULL, n_waiters);
    }
}

/* ---- creation ------------------------------------------------------------------------------- */

const gchar *const *
tps_plugin_list_services (void)
{
  return service_names;
}

static gboolean
find_service (const gchar *name, guint *serves, GError **error)
{
  for (guint i = 0; service_names[i] != NULL; i++)
    if (strcmp (name, service_names[i]) == 0)
      {
        *serves |= 1u << i;
        return TRUE;
      }
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "services: \"%s\" is unknown;"
               " see tps_plugin_list_services()",
               name);
  return FALSE;
}

static gboolean
choose_services (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  plugin->serves = SERVES_NODE;
  if (options->services == NULL)
    plugin->serves |= SERVES_PARAMETER_SERVER | SERVES_EMBEDDING_TABLE | SERVES_RENDEZVOUS;
  for (guint i = 0; options->services != NULL && options->services[i] != NULL; i++)
    if (!find_service (options->services[i], &plugin->serves, error))
      return FALSE;
  return TRUE;
}

/* Returns a pool of common segments, or NULL if there are none. The caller owns a reference. */
static TpsBufferPool *
new_common_pool (TpsPlugin *plugin, TpsBudget *budget)
{
  const TpsBufferSource source = { .alloc = tps_common_segments_alloc,
                                   .user_data = plugin->common_segments,
                                   .min_bytes = MIN_COMMON_BYTES,
                                   .powers_of_two = TRUE };

  if (plugin->common_segments == NULL)
    return NULL;
  return tps_buffer_pool_new_from (budget, plugin->budgets->kept, MAX_COMMON_BYTES, &source);
}

static TpsPushWindowOptions
get_pushes (const TpsPluginOptions *options, TpsBudget *budget)
{
  return (TpsPushWindowOptions) { .window = options->push_window,
                                  .max_clients = options->max_push_clients,
                                  .budget = budget };
}

static gboolean
make_parameter_servers (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  TpsParameterServerOptions averaging = { .kind = options->server_kind,
                                          .n_trainers = options->n_trainers,
                                          .reduce = options->reduce,
                                          .round_timeout_ns = options->round_timeout_ns,
                                          .workers = plugin->workers,
                                          .budgets = plugin->budgets,
                                          .device = plugin->device,
                                          .metrics = plugin->metrics };
  TpsModelServerOptions updating = { .n_trainers = options->n_trainers,
                                     .min_trainers = options->min_trainers,
                                     .round_timeout_ns = options->round_timeout_ns,
                                     .max_staleness = options->max_staleness,
                                     .pushes = get_pushes (options, plugin->budgets->model_windows),
                                     .sequencer = plugin->sequencer,
                                     .workers = plugin->workers,
                                     .metrics = plugin->metrics };
  g_autoptr (TpsBufferPool) models = NULL; /* the default pool belongs to the host program */
  g_autoptr (TpsBufferPool) shared_averages = NULL;
  g_autoptr (TpsBufferPool) shared_versions = NULL;

  /* Common segments contain tensors that clients on this host read in place. With access rules,
   * there are none, because a client could read tensors of other clients. */
  if (plugin->access == NULL && (plugin->device == NULL || plugin->device->is_host))
    plugin->common_segments = tps_common_segments_new ();
  averaging.shared_averages = shared_averages = new_common_pool (plugin, plugin->budgets->averages);
  plugin->parameter_servers.averaging = tps_parameter_server_new (&averaging, error);
  if (plugin->parameter_servers.averaging == NULL)
    return FALSE;
  if (options->parts != NULL)
    {
      updating.got_update = options->parts->got_update;
      updating.updated_model = options->parts->updated_model;
    }
  if (!options->has_process)
    updating.buffers = models = tps_buffer_pool_new (plugin->budgets->passes, plugin->budgets->kept,
                                                     MAX_KEPT_BYTES);
  updating.shared_versions = shared_versions = new_common_pool (plugin, plugin->budgets->passes);
  plugin->parameter_servers.updating = tps_model_server_new (&updating, error);
  return plugin->parameter_servers.updating != NULL;
}

static void
make_tables (TpsPlugin *plugin, const TpsPluginOptions *options)
{
  TpsTableStoreOptions tables = { .budgets = plugin->budgets,
                                  .quotas = plugin->quotas,
                                  .workers = plugin->workers,
                                  .counters = tps_metrics_get_counters (plugin->metrics),
                                  .sequencer = plugin->sequencer,
                                  .place = plugin->table_place,
                                  .max_row_bytes_of_call = options->max_row_bytes_of_call,
                                  .pushes = get_pushes (options, plugin->budgets->table_windows) };

  if (plugin->durable != NULL)
    {
      tables.durability = tps_durable_get_durability (plugin->durable);
      tables.keeps_row_lsns = TRUE;
    }
  plugin->tables = tps_table_store_new (&tables);
  plugin->embedding = tps_embedding_tables_new (plugin->tables);
}

static gboolean
make_objects (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  TpsChunksOptions chunks = { .workers = plugin->workers,
                              .budgets = plugin->budgets,
                              .metrics = plugin->metrics,
                              .access = plugin->access };

  if ((plugin->serves & SERVES_PARAMETER_SERVER)
      && !make_parameter_servers (plugin, options, error))
    return FALSE;
  if (plugin->serves & SERVES_EMBEDDING_TABLE)
    make_tables (plugin, options);
  if (plugin->serves & SERVES_RENDEZVOUS)
    plugin->rendezvous = tps_rendezvous_new (plugin->workers, plugin->budgets);
  plugin->chunks = tps_chunks_new (&chunks);
  return TRUE;
}

static guint
forget_push_clients (gpointer data, const gchar *tenant, gint64 idle_ns)
{
  const TpsPlugin *plugin = data;
  guint n = 0;

  if (plugin->tables != NULL)
    n += tps_push_window_forget (plugin->tables->pushes, tenant, idle_ns);
  if (plugin->parameter_servers.updating != NULL)
    n += tps_push_window_forget (tps_model_server_get_pushes (plugin->parameter_servers.updating),
                                 tenant, idle_ns);
  if (plugin->rendezvous != NULL)
    n += tps_push_window_forget (tps_rendezvous_get_pushes (plugin->rendezvous), tenant, idle_ns);
  return n;
}

static void
describe (TpsPlugin *plugin, const TpsPluginOptions *options)
{
  TpsDevice *used[] = { tps_device_find ("cpu", NULL), plugin->device, NULL };
  /* A process of its own describes all devices. */
  g_autofree TpsDevice **all = options->has_process ? tps_device_list () : NULL;

  for (TpsDevice **device = all != NULL ? all : used; *device != NULL; device++)
    g_ptr_array_add (plugin->device_names, (gpointer) (guintptr) (*device)->name);
  g_ptr_array_add (plugin->device_names, NULL);
  plugin->node = (TpsNode) {
    .name = plugin->name,
    .devices = (const gchar *const *) plugin->device_names->pdata,
    .metrics = plugin->metrics,
    .get_table_bytes = plugin->embedding != NULL ? tps_embedding_tables_get_bytes : NULL,
    .tables = plugin->embedding,
    .forget_push_clients = forget_push_clients,
    .plugin = plugin,
    .durable = plugin->durable,
    .access = plugin->access,
  };
}

static gboolean
refuse (GError **error, const gchar *option, const gchar *value, const gchar *expected)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s is \"%s\", expected %s", option, value,
                   expected);
}

/* Sets `found` to the device with this name; NULL = the CPU, on which the workers compute. */
static gboolean
find_device (const gchar *option, const gchar *name, TpsDevice **found, GError **error)
{
  TpsDevice *device = tps_device_find (name != NULL ? name : "cpu", error);

  if (device == NULL)
    g_prefix_error (error, "%s: ", option);
  else
    *found = device->is_host ? NULL : device;
  return device != NULL;
}

static gboolean
find_devices (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  if (options->table_device != NULL
      && !tps_table_place_parse (options->table_device, &plugin->table_place))
    return refuse (error, "table_device", options->table_device,
                   "cpu, cuda, cuda:N or cuda:N/host");
  if (!find_device ("device", options->device, &plugin->device, error)
      || !find_device ("table_device",
                       options->table_device != NULL ? plugin->table_place.device : NULL,
                       &plugin->table_device, error))
    return FALSE;
  if (options->parts != NULL && options->parts->device != NULL)
    plugin->device = options->parts->device;
  return TRUE;
}

static gboolean
open_data (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  TpsDurableOptions durable = { .folder = options->data_folder,
                                .log = { .segment_bytes = (gint64) options->log_segment_bytes },
                                .snapshot_interval_ns = options->snapshot_interval_ns,
                                .snapshot_log_bytes = options->snapshot_log_bytes,
                                .snapshot_increments = options->snapshot_increments,
                                .keep_snapshots = options->keep_snapshots,
                                .restore_from = options->restore_from,
                                .import_folder = options->import_folder };

  if (options->data_folder == NULL)
    return TRUE;
  if (options->parts != NULL)
    durable.faults = options->parts->faults;
  if (options->durability != NULL
      && !tps_durability_parse (options->durability, &durable.durability, &durable.interval_ns))
    return refuse (error, "durability", options->durability,
                   "none, interval, interval:MS (1 to 60000) or commit");
  plugin->durable = tps_durable_new (&durable, error);
  return plugin->durable != NULL;
}

/* Restores the snapshot of `restore_from`. Without a data directory, this happens before the plugin
 * serves calls; with one, the recovery does it. */
static gboolean
restore_copy (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  g_autoptr (TpsDisk) disk = tps_disk_new_posix ();
  TpsSnapshotOptions restoration = { .disk = disk,
                                     .sequencer = plugin->sequencer,
                                     .tables = plugin->tables,
                                     .model = plugin->parameter_servers.updating };
  TpsSnapshotInfo info;
  g_autofree gchar *folder = NULL;

  if (options->restore_from == NULL || plugin->durable != NULL)
    return TRUE;
  folder = tps_snapshot_locate (disk, options->restore_from, &info, error);
  return folder != NULL && tps_snapshot_restore_copy (&restoration, folder, error);
}

/* Restored tables may exceed the limits of tenants. Only tables that are created later must respect
 * them. */
static void
on_restored (gpointer data)
{
  TpsPlugin *plugin = data;

  tps_quotas_enforce_table_bytes (plugin->quotas);
}

static void
on_recovered (gpointer data, const GError *error)
{
  TpsPlugin *plugin = data;

  if (plugin->recovered != NULL)
    plugin->recovered (plugin->user_data, error);
}

static gboolean
start_recovery (TpsPlugin *plugin, const TpsPluginOptions *options, GError **error)
{
  TpsDurableTargets targets = {
    .sequencer = plugin->sequencer,
    .tables = plugin->tables,
    .model = plugin->parameter_servers.updating,
    .workers = plugin->workers,
    .counters = tps_metrics_get_counters (plugin->metrics),
    .replies = plugin->budgets->replies,
    .restored = on_restored,
    .recovered = on_recovered,
    .user_data = plugin,
  };

  plugin->recovered = options->recovered;
  plugin->user_data = options->user_data;
  if (plugin->durable != NULL)
    return tps_durable_start (plugin->durable, &targets, error);
  on_restored (plugin);
  return TRUE;
}

static TpsPlugin *
plugin_new (const TpsPluginOptions *options, GError **error)
{
  g_autoptr (TpsPlugin) plugin = g_new0 (TpsPlugin, 1);
  TpsQuotasOptions quotas = { 0 };
  TpsSequencerOptions sequencer = { 0 };
  const TpsBudgetLimits limits = { .max_memory_bytes = options->max_memory_bytes,
                                   .max_pending_bytes = options->max_pending_bytes,
                                   .max_table_bytes = options->max_table_bytes };
  TpsCounters *counters;

  plugin->name = g_strdup (options->name != NULL ? options->name : "thriftps");
  /* Before other threads exist, because the default pool gets its budgets here. */
  plugin->budgets = tps_budgets_new (&limits);
  if (options->has_process)
    tps_buffer_pool_set_budgets (tps_buffer_pool_get_default (), plugin->budgets->passes,
                                 plugin->budgets->kept);
  plugin->services = g_array_new (FALSE, FALSE, sizeof (TpsService));
  plugin->service_names = g_ptr_array_new ();
  plugin->device_names = g_ptr_array_new ();
  if (!choose_services (plugin, options, error) || !find_devices (plugin, options, error)
      || !open_data (plugin, options, error))
    return NULL;
  plugin->workers = tps_worker_pool_try_new (
      "tps-worker", options->n_workers > 0 ? options->n_workers : tps_cores_count (), error);
  if (plugin->workers == NULL)
    return NULL;
  quotas.tenants.tables = plugin->budgets->tables;
  quotas.tenants.workers = sequencer.workers = plugin->workers;
  plugin->quotas = tps_quotas_new (&quotas);
  if (options->access != NULL)
    {
      plugin->access = tps_access_ref (options->access);
      tps_access_set_quotas (plugin->access, plugin->quotas);
    }
  if (plugin->durable != NULL)
    tps_durable_init_sequencer (plugin->durable, &sequencer);
  plugin->sequencer = tps_sequencer_new (&sequencer);
  plugin->metrics = options->parts != NULL && options->parts->metrics != NULL
                        ? tps_metrics_ref (options->parts->metrics)
                        : tps_metrics_new (NULL, NULL);
  if (!make_objects (plugin, options, error) || !restore_copy (plugin, options, error))
    return NULL;
  counters = tps_metrics_get_counters (plugin->metrics);
  plugin->collectors[0] = tps_counters_add_collector (counters, collect_numbers, plugin);
  if (options->has_process)
    plugin->collectors[1] = tps_counters_add_collector (counters, tps_process_numbers_collect,
                                                        NULL);
  plugin->collectors[2] = tps_counters_add_collector (counters, tps_quotas_collect, plugin->quotas);
  tps_budgets_add_gauges (plugin->budgets, counters);
  describe (plugin, options);
  add_services (plugin);
  if (!start_recovery (plugin, options, error))
    return NULL;
  return g_steal_pointer (&plugin);
}

TpsPlugin *
tps_plugin_new (const TpsPluginOptions *given, GError **error)
{
  TpsPluginOptions options;

  TPS_SIZED_COPY (options, given);
  return plugin_new (&options, error);
}

gboolean
tps_plugin_close (TpsPlugin *plugin, GError **error)
{
  gboolean is_kept;

  if (plugin == NULL)
    return TRUE;
  if (plugin->durable != NULL)
    tps_durable_stop (plugin->durable);
  for (guint i = 0; i < G_N_ELEMENTS (plugin->collectors); i++)
    if (plugin->collectors[i] != 0)
      tps_counters_remove_collector (tps_metrics_get_counters (plugin->metrics),
                                     plugin->collectors[i]);
  if (plugin->workers != NULL)
    tps_worker_pool_settle (plugin->workers);
  for (guint i = 0; i < plugin->services->len; i++)
    {
      const TpsService *service = &g_array_index (plugin->services, TpsService, i);

      if (service->destroy != NULL)
        service->destroy (service->object);
    }
  g_clear_pointer (&plugin->parameter_servers.averaging, tps_parameter_server_free);
  g_clear_pointer (&plugin->parameter_servers.updating, tps_model_server_free);
  g_clear_pointer (&plugin->rendezvous, tps_rendezvous_free);
  g_clear_pointer (&plugin->chunks, tps_chunks_free);
  /* The log must be closed after the model server is freed, because the last update waits for the
   * log. */
  is_kept = tps_durable_close (g_steal_pointer (&plugin->durable), error);
  g_clear_pointer (&plugin->embedding, tps_embedding_tables_free);
  g_clear_pointer (&plugin->tables, tps_table_store_free);
  g_clear_pointer (&plugin->quotas, tps_quotas_unref);
  g_clear_pointer (&plugin->workers, tps_worker_pool_free);
  g_clear_pointer (&plugin->sequencer, tps_sequencer_free);
  g_clear_pointer (&plugin->access, tps_access_unref);
  g_clear_pointer (&plugin->common_segments, tps_common_segments_unref);
  g_clear_pointer (&plugin->metrics, tps_metrics_unref);
  g_clear_pointer (&plugin->budgets, tps_budgets_free);
  g_array_unref (plugin->services);
  g_ptr_array_unref (plugin->service_names);
  g_ptr_array_unref (plugin->device_names);
  g_free (plugin->name);
  g_free (plugin);
  return is_kept;
}

void
tps_plugin_free (TpsPlugin *plugin)
{
  tps_plugin_close (plugin, NULL);
}

void
tps_plugin_shut_down (TpsPlugin *plugin)
{
  for (guint i = 0; i < plugin->services->len; i++)
    {
      const TpsService *service = &g_array_index (plugin->services, TpsService, i);

      if (service->shut_down != NULL)
        service->shut_down (service->object);
    }
}

gboolean
tps_plugin_wait (TpsPlugin *plugin, GError **error)
{
  return plugin->durable == NULL || tps_durable_wait (plugin->durable, error);
}

gchar *
tps_plugin_dup_metrics (TpsPlugin *plugin)
{
  return g_string_free (
      tps_exposition_write (tps_metrics_get_counters (plugin->metrics), TPS_EXPOSITION_TEXT),
      FALSE);
}

const TpsService *
tps_plugin_get_services (TpsPlugin *plugin, guint *n_services)
{
  *n_services = plugin->services->len;
  return (const TpsService *) (gconstpointer) plugin->services->data;
}

/* ---- processors and servers ----------------------------------------------------------------- */

static gboolean
check_names (TpsPlugin *plugin, ThriftMultiplexedProcessor *multiplexed, const gchar *prefix,
             GError **error)
{
  if (strchr (prefix, ':') != NULL)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "prefix \"%s\" has a colon, which ends the service's name in the multiplexed protocol",
        prefix);
  for (guint i = 0; i < plugin->services->len; i++)
    {
      g_autofree gchar *name = g_strconcat (
          prefix, g_array_index (plugin->services, TpsService, i).name, NULL);

      if (g_hash_table_contains (multiplexed->multiplexed_services, name))
        return tps_fail (error, TPS_ERROR_ALREADY_EXISTS,
                         "a processor is registered as \"%s\" already: choose another prefix",
                         name);
    }
  return TRUE;
}

static gboolean
register_service (TpsPlugin *plugin, ThriftMultiplexedProcessor *multiplexed, const gchar *prefix,
                  const TpsService *service, TpsHostKind kind, GError **error)
{
  g_autofree gchar *name = g_strconcat (prefix, service->name, NULL);
  g_autoptr (TpsDispatcher) dispatcher = tps_dispatcher_new (service, 1, NULL, error);
  ThriftProcessor *processor;
  gboolean ok;

  if (dispatcher == NULL)
    return FALSE;
  tps_dispatcher_set_metrics (dispatcher, plugin->metrics);
  processor = tps_processor_new (dispatcher, kind, NULL);
  ok = thrift_multiplexed_processor_register_processor (THRIFT_PROCESSOR (multiplexed), name,
                                                        processor, error);
  g_object_unref (processor);
  return ok;
}

gboolean
tps_plugin_register (TpsPlugin *plugin, ThriftMultiplexedProcessor *multiplexed,
                     const gchar *prefix, TpsHostKind kind, GError **error)
{
  if (prefix == NULL)
    prefix = "";
  if (!check_names (plugin, multiplexed, prefix, error))
    return FALSE;
  for (guint i = 0; i < plugin->services->len; i++)
    if (!register_service (plugin, multiplexed, prefix,
                           &g_array_index (plugin->services, TpsService, i), kind, error))
      return FALSE;
  return TRUE;
}

ThriftProcessor *
tps_plugin_new_processor (TpsPlugin *plugin, const gchar *default_service, TpsHostKind kind,
                          GError **error)
{
  guint n_services;
  const TpsService *services = tps_plugin_get_services (plugin, &n_services);
  g_autoptr (TpsDispatcher)
      dispatcher = tps_dispatcher_new (services, n_services, default_service, error);

  if (dispatcher == NULL)
    return NULL;
  tps_dispatcher_set_metrics (dispatcher, plugin->metrics);
  return tps_processor_new (dispatcher, kind, NULL);
}

TpsServer *
tps_plugin_new_server (TpsPlugin *plugin, const TpsServerOptions *options)
{
  TpsServerOptions filled = { 0 };
  TpsServerParts parts = { 0 };
  TpsServer *server;

  if (options != NULL)
    TPS_SIZED_COPY (filled, options);
  if (filled.parts != NULL)
    parts = *filled.parts;
  filled.parts = &parts;
  if (parts.workers == NULL)
    parts.workers = plugin->workers;
  if (parts.budgets == NULL)
    parts.budgets = plugin->budgets;
  if (parts.device == NULL)
    parts.device = plugin->device != NULL ? plugin->device : plugin->table_device;
  if (parts.device != plugin->device)
    parts.device_for_lookups_only = TRUE;
  if (filled.access == NULL)
    filled.access = plugin->access;
  /* Without rules, all callers have one tenant, so no quotas are needed. */
  if (parts.quotas == NULL && filled.access != NULL)
    parts.quotas = plugin->quotas;
  if (parts.metrics == NULL)
    parts.metrics = plugin->metrics;
  if (parts.common_segments == NULL && filled.access == NULL)
    parts.common_segments = plugin->common_segments;
  server = tps_server_new (&filled);
  plugin->node.max_frame_bytes = (gint64) tps_server_get_max_frame_bytes (server);
  plugin->node.tls = filled.tls;
  for (guint i = 0; i < plugin->services->len; i++)
    tps_server_add_service (server, &g_array_index (plugin->services, TpsService, i));
  return server;
}
