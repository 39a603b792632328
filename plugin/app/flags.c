/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/flags.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "plugin/net/address.h"
#include "plugin/tracing/otlp/otlp_exporter.h"
#include "runtime/base/error.h"
#include "runtime/base/json_writer.h"
#include "runtime/base/options.h"
#include "runtime/base/text_file.h"
#include "runtime/base/trace.h"

/* -- config file -- */

/* The configuration file: a JSON object of options, {"ntrainer": 2, "listen": ["127.0.0.1:0",
 * "unix:/run/ps"]}. */

#define TPS_CONFIG_MAX_BYTES ((gsize) 1 << 20)

static gboolean
refuse_file (const gchar *path, const gchar *why, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "cannot read %s: %s", path, why);
}

/* Returns the value as text, or NULL if the node cannot be the value of an option. The caller owns
 * the text. */
static gchar *
to_text (JsonNode *node)
{
  gchar number[G_ASCII_DTOSTR_BUF_SIZE];

  if (!JSON_NODE_HOLDS_VALUE (node))
    return NULL;
  switch (json_node_get_value_type (node))
    {
    case G_TYPE_STRING:
      return json_node_dup_string (node);
    case G_TYPE_BOOLEAN:
      return g_strdup (json_node_get_boolean (node) ? "true" : "false");
    case G_TYPE_INT64:
      return g_strdup_printf ("%" G_GINT64_FORMAT, json_node_get_int (node));
    case G_TYPE_DOUBLE:
      return g_strdup (g_ascii_dtostr (number, sizeof number, json_node_get_double (node)));
    default:
      return NULL;
    }
}

static gboolean
add_value (TpsArguments *arguments, const gchar *path, const gchar *name, JsonNode *node,
           GError **error)
{
  g_autofree gchar *text = to_text (node);

  if (text != NULL)
    return tps_arguments_add (arguments, path, name, text, error);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s: \"%s\" must be a string, a number, true, false, or an array of them", path,
                   name);
}

static gboolean
add_member (TpsArguments *arguments, const gchar *path, const gchar *name, JsonNode *node,
            GError **error)
{
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (node))
    return add_value (arguments, path, name, node, error);
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    if (!add_value (arguments, path, name, json_array_get_element (array, i), error))
      return FALSE;
  return TRUE;
}

static gboolean
add_object (TpsArguments *arguments, const gchar *path, JsonObject *object, GError **error)
{
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *node;

  json_object_iter_init_ordered (&iter, object);
  while (json_object_iter_next_ordered (&iter, &name, &node))
    if (!add_member (arguments, path, name, node, error))
      return FALSE;
  return TRUE;
}

/* Adds every member of the file's object to `arguments`, after those of the command line, which
 * take precedence. Values must be strings, numbers, true, false, or arrays of them. Files larger
 * than TPS_CONFIG_MAX_BYTES are refused; a pipe is read to its end. Errors: INVALID_ARGUMENT, which
 * names the file and the reason. */
static gboolean
config_file_read (const gchar *path, TpsArguments *arguments, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) cause = NULL;
  g_autofree gchar *text = tps_text_file_read (path, TPS_CONFIG_MAX_BYTES, &cause);
  JsonNode *root;

  if (text != NULL && tps_json_has_more_brackets (text, TPS_JSON_MAX_BRACKETS))
    return refuse_file (path, "it has more than 16384 brackets", error);
  if (text == NULL || !json_parser_load_from_data (parser, text, -1, &cause))
    return refuse_file (path, cause->message, error);
  root = json_parser_get_root (parser);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return add_object (arguments, path, json_node_get_object (root), error);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: expected a JSON object of options",
                   path);
}

/* -- flags -- */

#define DEFAULT_SERVICE "ParameterServer"
#define SLOW_CALLS_WITH_HTTP 32 /* default of --slow-calls with --http, whose reports show them */
#define NODE_SERVICE "Node"
#define FIELD(name) offsetof (TpsServerFlags, name)

/* ---- values of one option ------------------------------------------------------------------- */

static gboolean
check_address (const gchar *text, GError **error)
{
  g_auto (TpsAddress) address = { NULL };

  return tps_address_parse (text, &address, error);
}

static gboolean
check_otlp (const gchar *text, GError **error)
{
  return tps_otlp_is_endpoint (text);
}

static gboolean
check_http (const gchar *text, GError **error)
{
  g_auto (TpsAddress) address = { NULL };

  return tps_address_parse (text, &address, error) && address.path == NULL;
}

static gboolean
check_device (const gchar *text, GError **error)
{
  return g_regex_match_simple ("^(cpu|cuda|cuda:[0-9]{1,4})$", text, G_REGEX_DOLLAR_ENDONLY, 0);
}

static gboolean
check_place (const gchar *text, GError **error)
{
  TpsTablePlace place;

  return tps_table_place_parse (text, &place);
}

static gboolean
parse_reduce (const gchar *text, gpointer field)
{
  gboolean is_sum = strcmp (text, "sum") == 0;

  *(TpsReduce *) field = is_sum ? TPS_REDUCE_SUM : TPS_REDUCE_MEAN;
  return is_sum || strcmp (text, "mean") == 0;
}

static gboolean
check_durability (const gchar *text, GError **error)
{
  TpsDurability durability;
  gint64 interval_ns;

  return tps_durability_parse (text, &durability, &interval_ns);
}

static gboolean
check_fault (const gchar *text, GError **error)
{
  return tps_fault_check (text, error);
}

static gboolean
parse_tls (const gchar *text, gpointer field)
{
  static const gchar *const modes[] = { "off", "allowed", "required" };

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    if (strcmp (text, modes[i]) == 0)
      {
        *(TpsTlsMode *) field = (TpsTlsMode) i;
        return TRUE;
      }
  return FALSE;
}

static gboolean
parse_tls_version (const gchar *text, gpointer field)
{
  gboolean is_old = strcmp (text, "1.2") == 0;

  *(gboolean *) field = is_old;
  return is_old || strcmp (text, "1.3") == 0;
}

static gboolean
check_levels (const gchar *text, GError **error)
{
  g_autoptr (TpsTraceLevels) levels = tps_trace_levels_parse (text, error);

  return levels != NULL;
}

static gboolean
parse_log_format (const gchar *text, gpointer field)
{
  static const gchar *const formats[] = {
    [TPS_LOG_AUTO] = "auto",
    [TPS_LOG_TEXT] = "text",
    [TPS_LOG_JSON] = "json",
    [TPS_LOG_JOURNAL] = "journal",
  };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (strcmp (text, formats[i]) == 0)
      {
        *(TpsLogFormat *) field = (TpsLogFormat) i;
        return TRUE;
      }
  return FALSE;
}

/* ---- table of options ----------------------------------------------------------------------- */

static const TpsOption options[] = {
  { "listen", TPS_OPTION_TEXTS, FIELD (listen), "ADDRESS", "127.0.0.1:9090", .check = check_address,
    .expected = "HOST:PORT, unix:PATH",
    .help = "Address to listen on; may be repeated; port 0 = any free port" },
  { "services", TPS_OPTION_TEXTS, FIELD (services), "A,B", .meaning = "all",
    .expected = "ParameterServer, EmbeddingTable, Rendezvous; in thriftps_trainer also Trainer",
    .help = "Services to serve; Node, Memory, Session and Chunks are always served, and so is "
            "Durability with --data-dir" },
  { "default-service", TPS_OPTION_TEXT, FIELD (server.default_service), "A",
    .meaning = DEFAULT_SERVICE " if it is served, otherwise the only value of --services",
    .expected = "one of --services",
    .help = "Service that receives the calls of clients that do not use the multiplexed protocol" },
  { "name", TPS_OPTION_TEXT, FIELD (plugin.name), "NAME", "thriftps_server",
    .help = "Name in replies of Node.describe" },
  { "ntrainer", TPS_OPTION_UINT, FIELD (plugin.n_trainers), "N", "1", .min = 1,
    .help = "Number of trainers that contribute to each average, and to each update of the model" },
  { "server", TPS_OPTION_TEXT, FIELD (plugin.server_kind), "KIND",
    .meaning = "AverageParameterServer",
    .expected = "AverageParameterServer, AverageBatchParameterServer",
    .help = "When gradients are added up: as they arrive (AverageParameterServer), or when all "
            "have arrived (AverageBatchParameterServer)" },
  { "device", TPS_OPTION_TEXT, FIELD (device), "DEVICE", "cpu", .check = check_device,
    .expected = "cpu, cuda or cuda:N", .help = "Device on which gradients are added up" },
  { "reduce", TPS_OPTION_OTHER, FIELD (plugin.reduce), "HOW", "mean", .parse = parse_reduce,
    .expected = "mean or sum", .help = "Result that the trainers of a round receive" },
  { "rpc-timeout", TPS_OPTION_SECONDS, FIELD (plugin.round_timeout_ns), "SECONDS", "30",
    .min = 1e-9, .max = 86400, .expected = "seconds above 0, at most 86400",
    .help = "Time that a round waits for the gradients of all trainers" },
  { "min-trainers", TPS_OPTION_UINT, FIELD (plugin.min_trainers), "N", .meaning = "all",
    .expected = "1 to --ntrainer, 0 for all",
    .help = "If the deadline of an update of the model passes, or all missing trainers have lost "
            "their connections, the update is made with at least N contributions; with fewer at "
            "the deadline, it is aborted" },
  { "max-staleness", TPS_OPTION_UINT, FIELD (plugin.max_staleness), "N", "0",
    .help = "Maximum age, in updates, of the model version from which a gradient was computed" },
  { "push-window", TPS_OPTION_UINT, FIELD (plugin.push_window), "N", G_STRINGIFY (TPS_PUSH_WINDOW),
    .min = 1, .max = 1 << 20,
    .help = "Number of push ids that are remembered for each client (the newest ones)" },
  { "push-clients", TPS_OPTION_UINT, FIELD (plugin.max_push_clients), "N",
    G_STRINGIFY (TPS_PUSH_MAX_CLIENTS), .min = 1,
    .help = "Maximum number of clients whose push ids are remembered with their "
            "replies" },
  { "table-device", TPS_OPTION_TEXT, FIELD (plugin.table_device), "DEVICE", "cpu",
    .check = check_place, .expected = "cpu, cuda, cuda:N or cuda:N/host",
    .help = "Default device of embedding tables; with /host, the rows lie in host memory, where "
            "the device reads and writes them" },
  { "max-table-mib", TPS_OPTION_MIB, FIELD (plugin.max_table_bytes), "MIB", .min = 1,
    .meaning = "0.8 of the memory",
    .help = "Limit on the memory of all embedding tables in host memory" },
  { "max-call-row-mib", TPS_OPTION_MIB, FIELD (plugin.max_row_bytes_of_call), "MIB", "4096",
    .min = 1,
    .help = "Limit on the total size of the rows in the bags of one lookup or push; a row counts "
            "each time that it is named" },
  { "data-dir", TPS_OPTION_TEXT, FIELD (plugin.data_folder), "DIR", .meaning = "none",
    .help = "Directory that keeps tables, the model and push ids across restarts; only one server "
            "may use it at a time" },
  { "durability", TPS_OPTION_TEXT, FIELD (plugin.durability), "MODE", "commit",
    .check = check_durability, .expected = "none, interval, interval:MS (1 to 60000) or commit",
    .help = "With --data-dir, durability of the model, and default for tables: a change is on the "
            "disk before its reply (commit), at most MS ms after it (interval; default 100) or "
            "at an unspecified time (none)" },
  { "log-segment-mib", TPS_OPTION_MIB, FIELD (plugin.log_segment_bytes), "MIB", "256", .min = 1,
    .max = 65536,
    .help = "Size of a file of the log; each file is allocated in full when it is created" },
  { "snapshot-interval", TPS_OPTION_SECONDS, FIELD (plugin.snapshot_interval_ns), "SECONDS", "0",
    .max = 31536000, .expected = "seconds, at most 31536000; 0 for never",
    .help = "With --data-dir, interval between snapshots; no snapshot is written if nothing has "
            "changed" },
  { "snapshot-log-mib", TPS_OPTION_MIB, FIELD (plugin.snapshot_log_bytes), "MIB", "4096",
    .expected = "1 or more, 0 for never",
    .help = "A snapshot is written when the log has grown by this much since the last one" },
  { "snapshot-increments", TPS_OPTION_UINT, FIELD (plugin.snapshot_increments), "N", "8", .max = 98,
    .expected = "0 to 98; 0 for none",
    .help =
        "Number of consecutive snapshots that may write only the changed rows of a table; a table "
        "is also written whole if its increments would exceed half of its size" },
  { "keep-snapshots", TPS_OPTION_UINT, FIELD (plugin.keep_snapshots), "N", "2", .min = 1,
    .max = 1000,
    .help = "Number of snapshots to keep; older snapshots are deleted, and so is the log before "
            "the oldest snapshot that is kept" },
  { "restore-from", TPS_OPTION_TEXT, FIELD (plugin.restore_from), "DIR", .meaning = "none",
    .help = "Snapshot, or data directory with a snapshot, from which the server starts if "
            "--data-dir is not given or its directory has no state yet" },
  { "import-dir", TPS_OPTION_TEXT, FIELD (plugin.import_folder), "DIR", .meaning = "none",
    .help = "Directory below which Durability.restore and import_table may read files; links in it "
            "are followed" },
  { "max-frame-mib", TPS_OPTION_MIB, FIELD (server.max_frame_bytes), "MIB", "256", .min = 1,
    .max = 2047, /* a frame's length is a signed 32-bit number */
    .help = "Maximum size of a frame; longer messages must be sent in chunks" },
  { "max-memory-mib", TPS_OPTION_MIB, FIELD (plugin.max_memory_bytes), "MIB", .min = 1,
    .meaning = "the memory, minus a tenth of it or 96 MiB, whichever is more",
    .help = "Limit on all memory that clients make the server hold; the sum of the other limits on "
            "memory may exceed it" },
  { "max-pending-mib", TPS_OPTION_MIB, FIELD (plugin.max_pending_bytes), "MIB", .min = 1,
    .meaning = "a quarter of the memory",
    .help = "Limit on the tensors of all pending calls and the memory shared with all clients, "
            "together; averages have a second budget of this size" },
  { "max-shared-mib", TPS_OPTION_MIB, FIELD (server.max_shared_bytes), "MIB", "1024",
    .expected = "1 or more, 0 for none",
    .help = "Limit on the memory shared with one connection over a Unix socket; for all "
            "connections together, the limit is half of --max-pending-mib" },
  { "max-inflight", TPS_OPTION_UINT, FIELD (server.max_in_flight), "N", "64", .min = 1,
    .help = "Maximum number of pending calls of one connection" },
  { "max-connections", TPS_OPTION_UINT, FIELD (server.max_connections), "N", "1024", .min = 1,
    .help = "Maximum number of open connections" },
  { "tls", TPS_OPTION_OTHER, FIELD (tls), "MODE", "off", .parse = parse_tls,
    .expected = "off, allowed or required",
    .help = "Whether TCP connections may be, or must be, encrypted; Unix sockets never are" },
  { "tls-cert", TPS_OPTION_TEXT, FIELD (tls_files.certificate), "FILE", .meaning = "none",
    .help = "Certificate of this server in PEM, followed by the intermediate certificates" },
  { "tls-key", TPS_OPTION_TEXT, FIELD (tls_files.key), "FILE", .meaning = "in --tls-cert",
    .help = "Private key of this server in PEM, without a passphrase" },
  { "tls-ca", TPS_OPTION_TEXT, FIELD (tls_files.authorities), "FILE", .meaning = "none",
    .help = "Certificate authorities of clients in PEM, with revocation lists if there are any; "
            "with this option, clients must have a certificate from one of these authorities" },
  { "tls-min", TPS_OPTION_OTHER, FIELD (tls_files.allow_tls_1_2), "VERSION", "1.3",
    .parse = parse_tls_version, .expected = "1.2 or 1.3", .help = "Oldest version of TLS" },
  { "allow-plain-collectives", TPS_OPTION_FLAG, FIELD (allow_plain_collectives),
    .help = "Only for thriftps_trainer: even with --tls=required, let its trainer exchange "
            "gradients by Gloo or NCCL, which do not encrypt" },
  { "access-file", TPS_OPTION_TEXT, FIELD (access.rules_file), "FILE",
    .meaning = "none: all callers have all rights",
    .help = "Rules in JSON: the rights of callers" },
  { "token-file", TPS_OPTION_TEXT, FIELD (access.token_file), "FILE", .meaning = "none",
    .help = "Names of clients with hashes of their tokens" },
  { "make-token", TPS_OPTION_TEXT, FIELD (make_token), "NAME[,TENANT]",
    .help = "Print a new token, and below it the line for --token-file" },
  { "insecure", TPS_OPTION_FLAG, FIELD (insecure),
    .help = "Listen on addresses that other hosts can reach, even if there is no --access-file or "
            "tokens may travel unencrypted" },
  { "http", TPS_OPTION_TEXTS, FIELD (http), "ADDRESS", .meaning = "none", .check = check_http,
    .expected = "HOST:PORT",
    .help = "Address for HTTP: health, metrics, reports and the web console; may be repeated; port "
            "0 selects a free port" },
  { "http-host", TPS_OPTION_TEXTS, FIELD (http_names), "NAME", .meaning = "none",
    .help = "Additional name that the Host header of HTTP requests may contain, besides addresses "
            "and localhost; may be repeated" },
  { "io-threads", TPS_OPTION_UINT, FIELD (server.n_io_threads), "N", .min = 1, .max = 256,
    .meaning = "one per core, but at least 8 and at most 64; 2 if there is one core",
    .help = "Threads for network I/O" },
  { "workers", TPS_OPTION_UINT, FIELD (plugin.n_workers), "N", .min = 1, .max = 1024,
    .meaning = "one per core", .help = "Threads for computations" },
  { "slow-calls", TPS_OPTION_UINT, FIELD (tracing.n_slow_calls), "N", "0",
    .max = TPS_SLOW_CALLS_MAX, .meaning = "32 with --http, otherwise 0",
    .expected = "0 to 256; 0 for none",
    .help = "Number of slowest calls that are kept for each of the last five minutes, with the "
            "times of their phases" },
  { "otlp", TPS_OPTION_TEXT, FIELD (otlp), "URL", .meaning = "none", .check = check_otlp,
    .expected = "http://HOST:PORT",
    .help = "Collector to which spans are sent as JSON (OTLP over HTTP)" },
  { "trace-sampling", TPS_OPTION_REAL, FIELD (tracing.sampling), "FRACTION", "0", .max = 1,
    .expected = "0 to 1",
    .help = "Fraction of the calls without a traceparent for which spans are sent; for a call with "
            "a traceparent, its sampled flag decides" },
  { "trace-max-rate", TPS_OPTION_UINT, FIELD (tracing.max_per_second), "N", "1000", .min = 1,
    .max = 1000000,
    .help = "Maximum number of calls per second whose spans are sent because of their "
            "traceparent" },
  { "log-level", TPS_OPTION_TEXT, FIELD (log_level), "LEVELS", "info", .check = check_levels,
    .expected = "error, warning, info or debug, and AREA=LEVEL, separated by commas",
    .help = "Least severe level that is logged, for all areas or for one; see \"Log\" in "
            "OPERATING.md" },
  { "log-format", TPS_OPTION_OTHER, FIELD (log_format), "FORMAT", "auto", .parse = parse_log_format,
    .expected = "auto, text, json or journal",
    .help = "Format of a line of the log; auto is journal if stderr is connected to the systemd "
            "journal, and text otherwise" },
  { "log-file", TPS_OPTION_TEXT, FIELD (log_file), "FILE", .meaning = "stderr",
    .help = "File to which the log is appended; on SIGHUP, the server opens it again" },
  { "fault", TPS_OPTION_TEXTS, FIELD (faults), "SPEC", .meaning = "none", .check = check_fault,
    .expected = "POINT:ACTION[,p=..][,after=N][,count=N][,on=TEXT], or seed=N",
    .help = "Fault to inject; may be repeated; see \"Fault injection\" in OPERATING.md" },
  { "enable-faults", TPS_OPTION_FLAG, FIELD (enable_faults),
    .help = "Allow --fault; must not be used with production data" },
  { "config", TPS_OPTION_TEXT, FIELD (config), "FILE",
    .help = "JSON object of options, with dashes or underscores in names; the command line wins" },
  { "tuning", TPS_OPTION_FLAG, FIELD (tuning),
    .help = "Print the values that depend on the machine, and their derivations" },
  { "version", TPS_OPTION_FLAG, FIELD (version), .help = "Print the version and exit" },
  { "help", TPS_OPTION_FLAG, FIELD (help), .help = "Print this help and exit" },
  { "help-markdown", TPS_OPTION_FLAG, FIELD (help_markdown),
    .help = "Print the options as a table in Markdown" },
  { NULL },
};

const TpsOption *
tps_server_flags_get_options (void)
{
  return options;
}

/* ---- options that depend on each other ------------------------------------------------------- */

static gboolean
add_service (TpsServerFlags *flags, GPtrArray *services, const gchar *addition, const gchar *name,
             GError **error)
{
  const gchar *const *known = tps_plugin_list_services ();
  g_autofree gchar *all = NULL;

  if (g_strcmp0 (name, addition) == 0)
    {
      flags->serves_addition = TRUE;
      return TRUE;
    }
  if (g_strv_contains (known, name))
    {
      if (!g_ptr_array_find_with_equal_func (services, name, g_str_equal, NULL))
        g_ptr_array_add (services, g_strdup (name));
      return TRUE;
    }
  all = g_strjoinv (", ", (gchar **) (gsize) known);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "--services: unknown service \"%s\"; known: %s%s%s", name, all,
                   addition != NULL ? ", " : "", addition != NULL ? addition : "");
}

/* Splits the values of --services at their commas; without the option, all services are served.
 * Node is always added, because clients ask it for the limit of frames and the offer of shared
 * memory. */
static gboolean
split_services (TpsServerFlags *flags, const gchar *addition, GError **error)
{
  g_autoptr (GPtrArray) services = g_ptr_array_new_with_free_func (g_free);

  for (GStrv list = flags->services; list != NULL && *list != NULL; list++)
    {
      g_auto (GStrv) names = g_strsplit (*list, ",", -1);

      for (guint i = 0; names[i] != NULL; i++)
        if (!add_service (flags, services, addition, g_strstrip (names[i]), error))
          return FALSE;
    }
  g_strfreev (flags->services);
  flags->services = NULL;
  if (services->len > 0 || flags->serves_addition)
    {
      add_service (flags, services, addition, NODE_SERVICE, NULL);
      g_ptr_array_add (services, NULL);
      flags->services = (GStrv) g_ptr_array_free (g_steal_pointer (&services), FALSE);
    }
  else
    {
      flags->services = g_strdupv ((gchar **) (gsize) tps_plugin_list_services ());
      flags->serves_addition = addition != NULL;
    }
  flags->plugin.services = (const gchar *const *) flags->services;
  return TRUE;
}

/* Returns the service of clients without the multiplexed protocol, or NULL if the choice would be
 * ambiguous. `only` is the service that the program adds; NULL = none. */
static const gchar *
choose_default_service (const gchar *const *services, const gchar *only)
{
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

/* Refuses options of TLS that would have no effect. An operator could believe that they protect the
 * server. */
static gboolean
check_tls (const TpsServerFlags *flags, const TpsArguments *arguments, GError **error)
{
  static const gchar without_tls[] = " has no effect without --tls=allowed or --tls=required";
  const TpsTlsOptions *files = &flags->tls_files;

  if (flags->tls != TPS_TLS_OFF && files->certificate == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--tls=%s needs --tls-cert=FILE",
                     tps_arguments_get (arguments, "tls"));
  if (flags->tls == TPS_TLS_OFF && files->certificate != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--tls-cert%s", without_tls);
  if (flags->tls == TPS_TLS_OFF && files->key != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--tls-key%s", without_tls);
  if (flags->tls == TPS_TLS_OFF && files->authorities != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--tls-ca%s", without_tls);
  if (flags->tls == TPS_TLS_OFF && tps_arguments_get (arguments, "tls-min") != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--tls-min%s", without_tls);
  return TRUE;
}

/* Returns the first address that other hosts can reach, borrowed; NULL = there is none. */
static const gchar *
find_open_address (const gchar *const *addresses)
{
  for (const gchar *const *text = addresses; *text != NULL; text++)
    {
      g_auto (TpsAddress) address = { NULL };

      if (tps_address_parse (*text, &address, NULL) && !tps_address_is_local (&address))
        return *text;
    }
  return NULL;
}

/* Without --insecure, callers on other hosts must be identified, and tokens must travel
 * encrypted. */
gboolean
tps_server_flags_check_exposure (const TpsServerFlags *flags, const gchar *const *addresses,
                                 GError **error)
{
  const gchar *address = flags->insecure || flags->make_token != NULL
                             ? NULL
                             : find_open_address (addresses);

  if (address == NULL)
    return TRUE;
  if (flags->access.rules_file == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "%s: other hosts can reach this address, and without rules they may call every "
                 "method: set --access-file=FILE, listen on 127.0.0.1 or unix:PATH, or accept the "
                 "risk with --insecure",
                 address);
  else if (flags->access.token_file != NULL && flags->tls != TPS_TLS_REQUIRED)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "%s: tokens may travel unencrypted to this address: use --tls=required, "
                 "or accept the risk with --insecure",
                 address);
  else
    return TRUE;
  return FALSE;
}

/* HTTP is not encrypted. Without --insecure, tokens must not travel between hosts, and other hosts
 * may reach the HTTP server only if there are rules. */
static gboolean
check_http_addresses (const TpsServerFlags *flags, GError **error)
{
  const gchar *address = NULL;
  gboolean may_be_open = flags->insecure
                         || (flags->access.rules_file != NULL && flags->access.token_file == NULL);

  if (flags->http != NULL && !may_be_open)
    address = find_open_address ((const gchar *const *) flags->http);
  if (address == NULL)
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "--http=%s: other hosts can reach this address, and HTTP is not encrypted: use a "
      "loopback address, use --access-file=FILE without --token-file, or accept the "
      "risk with --insecure",
      address);
}

static gboolean
finish (TpsServerFlags *flags, const gchar *addition, const TpsArguments *arguments, GError **error)
{
  TpsPluginOptions *plugin = &flags->plugin;
  TpsServerOptions *server = &flags->server;
  const gchar *added;

  if (!split_services (flags, addition, error))
    return FALSE;
  added = flags->serves_addition ? addition : NULL;
  if (flags->allow_plain_collectives && added == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "--allow-plain-collectives needs the service Trainer of thriftps_trainer");
  if (server->default_service == NULL)
    server->default_service = g_strdup (choose_default_service (plugin->services, added));
  else if (!g_strv_contains (plugin->services, server->default_service)
           && g_strcmp0 (server->default_service, added) != 0)
    return tps_arguments_refuse (arguments, "default-service", "one of --services", error);
  if (flags->faults != NULL && flags->faults[0] != NULL && !flags->enable_faults)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--fault needs --enable-faults");
  if (plugin->min_trainers > plugin->n_trainers)
    return tps_arguments_refuse (arguments, "min-trainers", "1 to --ntrainer, 0 for all", error);
  if (!check_tls (flags, arguments, error)
      || !tps_server_flags_check_exposure (flags, (const gchar *const *) flags->listen, error)
      || !check_http_addresses (flags, error))
    return FALSE;
  if (flags->tracing.sampling > 0 && flags->otlp == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "--trace-sampling needs --otlp=URL");
  flags->tracing.has_exporter = flags->otlp != NULL;
  if (tps_arguments_get (arguments, "slow-calls") == NULL && flags->http != NULL)
    flags->tracing.n_slow_calls = SLOW_CALLS_WITH_HTTP;
  if (strcmp (flags->device, "cuda") == 0)
    {
      g_free (flags->device);
      flags->device = g_strdup ("cuda:0");
    }
  if (plugin->snapshot_log_bytes == 0)
    plugin->snapshot_log_bytes = G_MAXSIZE;
  server->no_shared_memory = server->max_shared_bytes == 0;
  return TRUE;
}

void
tps_server_flags_clear (TpsServerFlags *flags)
{
  tps_options_clear (options, flags);
  g_clear_pointer (&flags->arguments, tps_arguments_free);
}

static gboolean
has (const TpsArguments *arguments, const gchar *name)
{
  return g_strcmp0 (tps_arguments_get (arguments, name), "true") == 0;
}

gboolean
tps_server_flags_parse (const gchar *const *argv, const gchar *addition, TpsServerFlags *flags,
                        GError **error)
{
  g_autoptr (TpsArguments) arguments = tps_arguments_new (options);
  g_auto (TpsServerFlags) parsed = { 0 };
  const gchar *config;

  if (!tps_arguments_add_line (arguments, argv, error))
    return FALSE;
  config = tps_arguments_get (arguments, "config");
  if (has (arguments, "help"))
    parsed.help = TRUE;
  else if ((config != NULL && !config_file_read (config, arguments, error))
           || !tps_arguments_apply (arguments, &parsed, error)
           || !finish (&parsed, addition, arguments, error))
    return FALSE;
  parsed.arguments = g_steal_pointer (&arguments);
  *flags = parsed;
  /* The caller owns the members now: the automatic cleanup must not free them. */
  memset (&parsed, 0, sizeof parsed);
  return TRUE;
}
