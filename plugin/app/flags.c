/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/flags.h"

#include <math.h>
#include <string.h>

#include "plugin/app/config_file.h"
#include "plugin/net/address.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"

#define DEFAULT_LISTEN "127.0.0.1:9090"
#define DEFAULT_SERVICE "ParameterServer"
#define NODE_SERVICE "Node"
#define MAX_FRAME_MIB 2047 /* a frame's length is a signed 32-bit number */
#define MAX_PUSH_WINDOW (1 << 20)

/* As GOption fills them in. */
typedef struct
{
  GStrv listen;
  GStrv services;
  gchar *default_service;
  gchar *name;
  gchar *server;
  gchar *device;
  gchar *table_device;
  gchar *reduce;
  gchar *log_level;
  gchar *config;
  gdouble rpc_timeout_s;
  gint n_trainers;
  gint min_trainers;
  gint max_staleness;
  gint push_window;
  gint push_clients;
  gint64 max_frame_mib;
  gint64 max_pending_mib;
  gint64 max_shared_mib;
  gint64 max_table_mib;
  gint max_in_flight;
  gint max_connections;
  gint n_io_threads;
  gint n_workers;
  gboolean version;
} RawFlags;

static void
raw_flags_clear (RawFlags *raw)
{
  g_strfreev (raw->listen);
  g_strfreev (raw->services);
  g_free (raw->default_service);
  g_free (raw->name);
  g_free (raw->server);
  g_free (raw->device);
  g_free (raw->table_device);
  g_free (raw->reduce);
  g_free (raw->log_level);
  g_free (raw->config);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RawFlags, raw_flags_clear)

static gboolean
refuse (GError **error, const gchar *flag, const gchar *expected)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--%s: expected %s", flag, expected);
  return FALSE;
}

/* ---- the command line ----------------------------------------------------------------------- */

static gboolean
parse_raw (GStrv *argv, RawFlags *raw, GError **error)
{
  g_autoptr (GOptionContext)
      context = g_option_context_new ("- serves ThriftPS over Apache Thrift");
  g_autoptr (GError) cause = NULL;
  const GOptionEntry entries[] = {
    { "listen", 0, 0, G_OPTION_ARG_STRING_ARRAY, &raw->listen,
      "Address to listen on, may be repeated: HOST:PORT, unix:PATH; port 0 picks one (" DEFAULT_LISTEN
      ")",
      "ADDRESS" },
    { "services", 0, 0, G_OPTION_ARG_STRING_ARRAY, &raw->services,
      "Some of ParameterServer, EmbeddingTable, Trainer, Rendezvous (all); Node, Memory and Chunks "
      "are always served",
      "A,B" },
    { "default-service", 0, 0, G_OPTION_ARG_STRING, &raw->default_service,
      "Service of clients that do not multiplex (" DEFAULT_SERVICE
      ", or the only one besides " NODE_SERVICE ")",
      "A" },
    { "name", 0, 0, G_OPTION_ARG_STRING, &raw->name, "What Node.describe answers (thriftps_server)",
      "NAME" },
    { "ntrainer", 0, 0, G_OPTION_ARG_INT, &raw->n_trainers, "Trainers of an average (1)", "N" },
    { "server", 0, 0, G_OPTION_ARG_STRING, &raw->server,
      "AverageParameterServer adds up gradients as they come, AverageBatchParameterServer when all "
      "are there (AverageParameterServer)",
      "KIND" },
    { "device", 0, 0, G_OPTION_ARG_STRING, &raw->device,
      "Where gradients are added up: cpu, cuda, cuda:N (cpu)", "DEVICE" },
    { "reduce", 0, 0, G_OPTION_ARG_STRING, &raw->reduce, "mean or sum (mean)", "HOW" },
    { "rpc-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &raw->rpc_timeout_s,
      "How long a gradient waits for those of the other trainers (30)", "SECONDS" },
    { "min-trainers", 0, 0, G_OPTION_ARG_INT, &raw->min_trainers,
      "Trainers that suffice for an update of the model at the deadline (all)", "N" },
    { "max-staleness", 0, 0, G_OPTION_ARG_INT, &raw->max_staleness,
      "Updates of the model that a gradient may have missed (0)", "N" },
    { "push-window", 0, 0, G_OPTION_ARG_INT, &raw->push_window,
      "Newest push ids that are remembered of a client (1024)", "N" },
    { "push-clients", 0, 0, G_OPTION_ARG_INT, &raw->push_clients,
      "Clients whose push ids are remembered (65536)", "N" },
    { "table-device", 0, 0, G_OPTION_ARG_STRING, &raw->table_device,
      "Where embedding tables are that do not say it: cpu, cuda, cuda:N, or cuda:N/host in memory "
      "of the host that the device works on (cpu)",
      "DEVICE" },
    { "max-table-mib", 0, 0, G_OPTION_ARG_INT64, &raw->max_table_mib,
      "Embedding tables in the host's memory in all (0.8 of it)", "MIB" },
    { "max-frame-mib", 0, 0, G_OPTION_ARG_INT64, &raw->max_frame_mib,
      "Largest frame (256); larger messages come in chunks", "MIB" },
    { "max-pending-mib", 0, 0, G_OPTION_ARG_INT64, &raw->max_pending_mib,
      "Tensors of all calls under way and memory shared with all clients together (a quarter of the "
      "memory); averages may have as much besides",
      "MIB" },
    { "max-shared-mib", 0, 0, G_OPTION_ARG_INT64, &raw->max_shared_mib,
      "Memory shared with one connection over a Unix socket (1024), 0 for none; with all connections "
      "half of --max-pending-mib",
      "MIB" },
    { "max-inflight", 0, 0, G_OPTION_ARG_INT, &raw->max_in_flight,
      "Calls of one connection at a time (64)", "N" },
    { "max-connections", 0, 0, G_OPTION_ARG_INT, &raw->max_connections, "Connections (1024)", "N" },
    { "io-threads", 0, 0, G_OPTION_ARG_INT, &raw->n_io_threads,
      "Threads that read and write (8, or 2 on one core)", "N" },
    { "workers", 0, 0, G_OPTION_ARG_INT, &raw->n_workers, "Threads that compute (cores)", "N" },
    { "log-level", 0, 0, G_OPTION_ARG_STRING, &raw->log_level,
      "error, warning, info or debug (info)", "LEVEL" },
    { "config", 0, 0, G_OPTION_ARG_FILENAME, &raw->config,
      "JSON object of flags; the command line wins", "FILE" },
    { "version", 0, 0, G_OPTION_ARG_NONE, &raw->version, "Print the version", NULL },
    { NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse_strv (context, argv, &cause))
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, cause->message);
      return FALSE;
    }
  if (*argv == NULL || (*argv)[0] == NULL || (*argv)[1] == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "unexpected argument \"%s\"",
               (*argv)[1]);
  return FALSE;
}

static void
set_defaults (RawFlags *raw)
{
  *raw = (RawFlags) {
    .rpc_timeout_s = 30,
    .n_trainers = 1,
    .push_window = TPS_PUSH_WINDOW,
    .push_clients = TPS_PUSH_MAX_CLIENTS,
    .max_table_mib = -1,
    .max_frame_mib = 256,
    .max_pending_mib = -1,
    .max_shared_mib = 1024,
    .max_in_flight = 64,
    .max_connections = 1024,
    .n_io_threads = -1,
    .n_workers = -1,
  };
}

/* The path of --config in the arguments; NULL = not there. */
static gchar *
find_config (const GPtrArray *arguments)
{
  for (guint i = 1; i < arguments->len; i++)
    {
      const gchar *argument = g_ptr_array_index (arguments, i);

      if (argument == NULL)
        break;
      if (g_str_has_prefix (argument, "--config="))
        return g_strdup (argument + strlen ("--config="));
      if (strcmp (argument, "--config") == 0)
        return g_strdup (g_ptr_array_index (arguments, i + 1));
    }
  return NULL;
}

/* Parses the file's flags alone, so that an error can name the file. */
static gboolean
check_config (const gchar *path, const GPtrArray *flags, GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_auto (RawFlags) unused = { 0 };
  g_auto (GStrv) strv = NULL;

  g_strv_builder_add (builder, "thriftps_server");
  for (guint i = 0; i < flags->len; i++)
    g_strv_builder_add (builder, g_ptr_array_index (flags, i));
  strv = g_strv_builder_end (builder);
  if (parse_raw (&strv, &unused, error))
    return TRUE;
  g_prefix_error (error, "%s: ", path);
  return FALSE;
}

/* What the file says comes behind the command line, without what that says already. */
static gboolean
add_config (GPtrArray *arguments, GError **error)
{
  g_autofree gchar *path = find_config (arguments);
  g_autoptr (GPtrArray) flags = g_ptr_array_new_with_free_func (g_free);

  if (path == NULL)
    return TRUE;
  if (!tps_config_file_read (path, (const gchar *const *) arguments->pdata, flags, error)
      || !check_config (path, flags, error))
    return FALSE;
  for (guint i = 0; i < flags->len; i++)
    g_ptr_array_insert (arguments, (gint) arguments->len - 1,
                        g_strdup (g_ptr_array_index (flags, i)));
  return TRUE;
}

static gboolean
parse_arguments (const gchar *const *argv, RawFlags *raw, GError **error)
{
  g_autoptr (GPtrArray) arguments = g_ptr_array_new_with_free_func (g_free);
  g_auto (GStrv) strv = NULL;

  for (; *argv != NULL; argv++)
    g_ptr_array_add (arguments, tps_config_normalize_flag (*argv));
  g_ptr_array_add (arguments, NULL);
  if (!add_config (arguments, error))
    return FALSE;
  strv = g_strdupv ((gchar **) arguments->pdata);
  return parse_raw (&strv, raw, error);
}

/* ---- what the values mean ------------------------------------------------------------------- */

static gboolean
add_service (GPtrArray *services, const gchar *name, GError **error)
{
  g_autofree gchar *all = NULL;

  if (g_strv_contains (tps_plugin_list_services (), name))
    {
      if (!g_ptr_array_find_with_equal_func (services, name, g_str_equal, NULL))
        g_ptr_array_add (services, g_strdup (name));
      return TRUE;
    }
  all = g_strjoinv (", ", (gchar **) (gsize) tps_plugin_list_services ());
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--services: unknown service \"%s\"; known: %s", name, all);
  return FALSE;
}

/* Each of `lists` may name several, with commas. Node is always among them: clients ask it for the limit of frames, and for what
 * memory may be shared. */
static gboolean
set_services (TpsServerFlags *flags, GStrv lists, GError **error)
{
  g_autoptr (GPtrArray) services = g_ptr_array_new_with_free_func (g_free);

  for (; lists != NULL && *lists != NULL; lists++)
    {
      g_auto (GStrv) names = g_strsplit (*lists, ",", -1);

      for (guint i = 0; names[i] != NULL; i++)
        if (!add_service (services, g_strstrip (names[i]), error))
          return FALSE;
    }
  if (services->len == 0)
    {
      flags->services = g_strdupv ((gchar **) (gsize) tps_plugin_list_services ());
      return TRUE;
    }
  if (!add_service (services, NODE_SERVICE, error))
    return FALSE;
  g_ptr_array_add (services, NULL);
  flags->services = (GStrv) g_ptr_array_free (g_steal_pointer (&services), FALSE);
  return TRUE;
}

/* NULL: there is more than one that it might be. */
static const gchar *
choose_default_service (const gchar *const *services)
{
  const gchar *only = NULL;

  if (g_strv_contains (services, DEFAULT_SERVICE))
    return DEFAULT_SERVICE;
  for (; *services != NULL; services++)
    {
      if (strcmp (*services, NODE_SERVICE) == 0)
        continue;
      if (only != NULL)
        return NULL;
      only = *services;
    }
  return only != NULL ? only : NODE_SERVICE;
}

static gboolean
set_default_service (TpsServerFlags *flags, const gchar *name, GError **error)
{
  if (name == NULL)
    name = choose_default_service ((const gchar *const *) flags->services);
  if (name != NULL && !g_strv_contains ((const gchar *const *) flags->services, name))
    return refuse (error, "default-service", "one of --services");
  flags->default_service = g_strdup (name);
  flags->options.default_service = flags->default_service;
  return TRUE;
}

static gboolean
set_reduce (TpsServerFlags *flags, const gchar *reduce, GError **error)
{
  if (reduce != NULL && strcmp (reduce, "mean") != 0 && strcmp (reduce, "sum") != 0)
    return refuse (error, "reduce", "mean or sum");
  flags->reduce = g_strcmp0 (reduce, "sum") == 0 ? TPS_REDUCE_SUM : TPS_REDUCE_MEAN;
  return TRUE;
}

/* "cuda" is the first of them. */
static gboolean
set_device (TpsServerFlags *flags, const gchar *device, GError **error)
{
  if (device == NULL)
    device = "cpu";
  if (!g_regex_match_simple ("^(cpu|cuda|cuda:[0-9]{1,4})$", device, G_REGEX_DOLLAR_ENDONLY, 0))
    return refuse (error, "device", "cpu, cuda or cuda:N");
  flags->device = g_strdup (strcmp (device, "cuda") == 0 ? "cuda:0" : device);
  return TRUE;
}

static gboolean
set_averaging (TpsServerFlags *flags, const RawFlags *raw, GError **error)
{
  if (raw->n_trainers < 1)
    return refuse (error, "ntrainer", "1 or more");
  if (!(raw->rpc_timeout_s > 0 && raw->rpc_timeout_s <= 86400))
    return refuse (error, "rpc-timeout", "seconds above 0, at most 86400");
  flags->n_trainers = (guint) raw->n_trainers;
  flags->rpc_timeout_ns = (gint64) ceil (raw->rpc_timeout_s * 1e9);
  flags->server = g_strdup (raw->server);
  return set_device (flags, raw->device, error) && set_reduce (flags, raw->reduce, error);
}

static gboolean
set_updating (TpsServerFlags *flags, const RawFlags *raw, GError **error)
{
  if (raw->min_trainers < 0 || raw->min_trainers > raw->n_trainers)
    return refuse (error, "min-trainers", "1 to --ntrainer, 0 for all");
  if (raw->max_staleness < 0)
    return refuse (error, "max-staleness", "0 or more");
  flags->min_trainers = (guint) raw->min_trainers;
  flags->max_staleness = (guint) raw->max_staleness;
  return TRUE;
}

static gboolean
set_tables (TpsServerFlags *flags, const RawFlags *raw, GError **error)
{
  if (raw->max_table_mib != -1 && (raw->max_table_mib < 1 || raw->max_table_mib > G_MAXINT64 >> 20))
    return refuse (error, "max-table-mib", "1 or more");
  if (!tps_table_place_parse (raw->table_device != NULL ? raw->table_device : "cpu",
                              &flags->table_place))
    return refuse (error, "table-device", "cpu, cuda, cuda:N or cuda:N/host");
  if (raw->push_window < 1 || raw->push_window > MAX_PUSH_WINDOW)
    return refuse (error, "push-window", "1 to 1048576");
  if (raw->push_clients < 1)
    return refuse (error, "push-clients", "1 or more");
  flags->max_table_bytes = (gsize) MAX (raw->max_table_mib, 0) << 20;
  flags->pushes.window = (guint) raw->push_window;
  flags->pushes.max_clients = (guint) raw->push_clients;
  return TRUE;
}

static gboolean
set_bounds (TpsServerFlags *flags, const RawFlags *raw, GError **error)
{
  TpsServerOptions *options = &flags->options;

  if (raw->max_frame_mib < 1 || raw->max_frame_mib > MAX_FRAME_MIB)
    return refuse (error, "max-frame-mib", "1 to 2047");
  if (raw->max_pending_mib != -1
      && (raw->max_pending_mib < 1 || raw->max_pending_mib > G_MAXINT64 >> 20))
    return refuse (error, "max-pending-mib", "1 or more");
  if (raw->max_shared_mib < 0 || raw->max_shared_mib > G_MAXINT64 >> 20)
    return refuse (error, "max-shared-mib", "1 or more, 0 for none");
  if (raw->max_in_flight < 1)
    return refuse (error, "max-inflight", "1 or more");
  if (raw->max_connections < 1)
    return refuse (error, "max-connections", "1 or more");
  if (raw->n_io_threads != -1 && (raw->n_io_threads < 1 || raw->n_io_threads > 256))
    return refuse (error, "io-threads", "1 to 256");
  if (raw->n_workers != -1 && (raw->n_workers < 1 || raw->n_workers > 1024))
    return refuse (error, "workers", "1 to 1024");
  options->max_frame_bytes = (gsize) raw->max_frame_mib << 20;
  options->max_pending_bytes = (gsize) MAX (raw->max_pending_mib, 0) << 20;
  options->max_shared_bytes = (gsize) raw->max_shared_mib << 20;
  options->no_shared_memory = raw->max_shared_mib == 0;
  options->max_in_flight = (guint) raw->max_in_flight;
  options->max_connections = (guint) raw->max_connections;
  options->n_io_threads = (guint) MAX (raw->n_io_threads, 0);
  options->n_workers = (guint) MAX (raw->n_workers, 0);
  return TRUE;
}

static gboolean
set_listen (TpsServerFlags *flags, GStrv listen, GError **error)
{
  static const gchar *const default_listen[] = { DEFAULT_LISTEN, NULL };

  flags->listen = g_strdupv (listen != NULL ? listen : (gchar **) (gsize) default_listen);
  for (guint i = 0; flags->listen[i] != NULL; i++)
    {
      g_auto (TpsAddress) address = { NULL };

      if (!tps_address_parse (flags->listen[i], &address, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
set_rest (TpsServerFlags *flags, const RawFlags *raw, GError **error)
{
  flags->log_level = TPS_TRACE_INFO;
  if (raw->log_level != NULL && !tps_trace_parse_level (raw->log_level, &flags->log_level))
    return refuse (error, "log-level", "error, warning, info or debug");
  flags->name = g_strdup (raw->name != NULL ? raw->name : "thriftps_server");
  flags->version = raw->version;
  return set_listen (flags, raw->listen, error);
}

void
tps_server_flags_clear (TpsServerFlags *flags)
{
  g_clear_pointer (&flags->listen, g_strfreev);
  g_clear_pointer (&flags->services, g_strfreev);
  g_clear_pointer (&flags->default_service, g_free);
  g_clear_pointer (&flags->name, g_free);
  g_clear_pointer (&flags->server, g_free);
  g_clear_pointer (&flags->device, g_free);
}

gboolean
tps_server_flags_parse (const gchar *const *argv, TpsServerFlags *flags, GError **error)
{
  g_auto (RawFlags) raw = { 0 };
  g_auto (TpsServerFlags) parsed = { 0 };

  set_defaults (&raw);
  if (!parse_arguments (argv, &raw, error) || !set_services (&parsed, raw.services, error)
      || !set_default_service (&parsed, raw.default_service, error)
      || !set_averaging (&parsed, &raw, error) || !set_updating (&parsed, &raw, error)
      || !set_tables (&parsed, &raw, error) || !set_bounds (&parsed, &raw, error)
      || !set_rest (&parsed, &raw, error))
    return FALSE;
  *flags = parsed;
  memset (&parsed, 0, sizeof parsed);
  return TRUE;
}
