/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/plan.h"

#include <sys/resource.h>

#include "bench/transfer/system/row.h"
#include "runtime/base/error.h"

/* -- options -- */

#define MAX_IDLE 60000
#define OTHER_DESCRIPTORS 256

#define FIELD(name) G_STRUCT_OFFSET (TpsTransferOptions, name)

static const TpsFlag flags[] = {
  { "transport", G_OPTION_ARG_STRING, FIELD (transport),
    "one transport alone: tcp, unix, shm, which is a Unix socket with shared memory, or tls, which "
    "means --tls (default: the first three)",
    "NAME", .words = "tcp unix shm tls" },
  { "system", G_OPTION_ARG_STRING, FIELD (system),
    "one system alone: thriftps, raw, memcpy or a peer by its name (default: all)", "NAME" },
  { "op", G_OPTION_ARG_STRING, FIELD (op),
    "push, pull or echo alone, and a row of it instead of the table (default: all)", "NAME",
    .words = "push pull echo" },
  { "bytes", G_OPTION_ARG_INT64, FIELD (bytes),
    "a row of such tensors instead of the table: 4 to 268435456, a multiple of 4 (16 MiB)", "N",
    TPS_FLAGS_NOT_GIVEN, 4, TPS_TRANSFER_MAX_BYTES },
  { "connections", G_OPTION_ARG_INT, FIELD (connections),
    "a row with so many connections instead of the table, 1 to 64 (1)", "N", TPS_FLAGS_NOT_GIVEN, 1,
    64 },
  { "in-flight", G_OPTION_ARG_INT, FIELD (in_flight),
    "a row with so many calls in flight on each connection, 1 to 32 (1)", "N", TPS_FLAGS_NOT_GIVEN,
    1, 32 },
  { "calls", G_OPTION_ARG_INT, FIELD (calls), "calls of a row in a round (by its size)", "N", 0, 0,
    1000000 },
  { "peers", G_OPTION_ARG_NONE, FIELD (peers),
    "the same rows on Thrift's C++ and C GLib libraries and on PyTorch's TensorPipe" },
  { "tls", G_OPTION_ARG_NONE, FIELD (tls),
    "the same rows on ThriftPS over TCP with TLS 1.3, whose certificate is made for the run; with "
    "--peers also openssl s_client and s_server, and handshakes by openssl s_time" },
  { "seconds", G_OPTION_ARG_DOUBLE, FIELD (seconds),
    "length of a round of small calls to ThriftPS over TCP, 8 clients; 0 = none (1)", "S",
    TPS_FLAGS_NOT_GIVEN },
  { "idle", G_OPTION_ARG_INT, FIELD (idle),
    "such calls beside so many idle connections, and what these cost (0)", "N" },
  { "serve", G_OPTION_ARG_STRING, FIELD (serve) },
  { "load", G_OPTION_ARG_STRING, FIELD (load) },
  { "address", G_OPTION_ARG_STRING, FIELD (address) },
  { "certificate", G_OPTION_ARG_FILENAME, FIELD (certificate) },
  { NULL },
};

const TpsCommandLine tps_transfer_command_line = {
  "transfer",
  "Measures how fast tensors and small calls go through the plugin, next to raw sockets, raw shared "
  "memory and memcpy,\nand other libraries.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

/* Returns TRUE if small calls are measured, which go to our server over TCP. */
static gboolean
has_small_calls (const TpsTransferOptions *options)
{
  return (options->transport == NULL || g_str_equal (options->transport, "tcp"))
         && (options->system == NULL || g_str_equal (options->system, "thriftps"));
}

static void
fill_in_row (TpsTransferOptions *options)
{
  options->has_row = options->op != NULL || options->bytes != TPS_FLAGS_NOT_GIVEN
                     || options->connections != TPS_FLAGS_NOT_GIVEN
                     || options->in_flight != TPS_FLAGS_NOT_GIVEN;
  if (!options->has_row)
    return;
  if (options->bytes == TPS_FLAGS_NOT_GIVEN)
    options->bytes = 16 << 20;
  tps_flags_default_number (&options->connections, 1);
  tps_flags_default_number (&options->in_flight, 1);
}

static void
fill_in_defaults (TpsTransferOptions *options)
{
  fill_in_row (options);
  options->tls = options->tls || g_strcmp0 (options->transport, "tls") == 0;
  tps_flags_default_number (&options->run.repeats, options->run.smoke ? 1 : 5);
  if (options->seconds <= TPS_FLAGS_NOT_GIVEN)
    options->seconds = has_small_calls (options) ? 1 : 0;
  if (options->run.smoke)
    options->seconds = MIN (options->seconds, 0.1);
}

/* Checks the options of small calls: no length or number that no selected system would use. */
static gboolean
check_small_calls (const TpsTransferOptions *options, GError **error)
{
  gboolean is_idle = options->idle > 0;
  g_autofree gchar *value = is_idle ? g_strdup_printf ("%d", options->idle)
                                    : g_strdup_printf ("%g", options->seconds);

  if ((is_idle || options->seconds > 0) && !has_small_calls (options))
    return tps_flags_refuse (is_idle ? "idle" : "seconds", value,
                             "ThriftPS over TCP, where small calls go: no --transport but tcp, no "
                             "--system but thriftps",
                             error);
  return options->seconds > 0 || !is_idle
         || tps_flags_refuse ("seconds", "0", "more than 0 with --idle", error);
}

gboolean
tps_transfer_options_parse (TpsTransferOptions *options, gint argc, gchar **argv, GError **error)
{
  if (!tps_command_line_parse (&tps_transfer_command_line, options, argc, argv, NULL, error))
    return FALSE;
  if (options->bytes % 4 != 0)
    {
      g_autofree gchar *value = g_strdup_printf ("%" G_GINT64_FORMAT, options->bytes);

      return tps_flags_refuse ("bytes", value, "a multiple of 4", error);
    }
  fill_in_defaults (options);
  return tps_flags_check_number ("idle", options->idle, 0, tps_transfer_options_get_max_idle (),
                                 error)
         && check_small_calls (options, error);
}

void
tps_transfer_options_clear (TpsTransferOptions *options)
{
  tps_command_line_clear (&tps_transfer_command_line, options);
}

gint
tps_transfer_options_get_max_idle (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max <= OTHER_DESCRIPTORS)
    return 0;
  return (gint) MIN (limit.rlim_max - OTHER_DESCRIPTORS, MAX_IDLE);
}

/* -- plan -- */

#define MIB ((gsize) 1 << 20)
#define KIB ((gsize) 1 << 10)
#define BYTES_OF_A_ROW (256 * MIB)
#define WARM_UP_CALLS 8
/* The fixed time of a row in seconds: to send the order and to start threads. */
#define ROW_S 0.002

/* -- rows -- */

/* Chooses a number of calls that takes about a quarter of a second at the speed of a socket. */
static guint
choose_n_calls (const TpsTransferOptions *options, gsize n_bytes)
{
  if (options->calls > 0)
    return (guint) options->calls;
  return options->run.smoke ? 4 : (guint) CLAMP (BYTES_OF_A_ROW / MAX (n_bytes, 1), 4, 1000);
}

static void
add_row (const TpsTransferOptions *options, GArray *rows, TpsTransferOp op, gsize n_bytes,
         guint n_connections, guint n_in_flight)
{
  TpsTransferRow row = {
    .op = op, .n_bytes = n_bytes, .n_connections = n_connections, .n_in_flight = n_in_flight
  };

  row.n_calls = MAX (choose_n_calls (options, n_bytes), n_connections * n_in_flight);
  g_array_append_val (rows, row);
}

/* Adds a row for each size and operation, with one call at a time. */
static void
add_sizes (const TpsTransferOptions *options, GArray *rows)
{
  static const gsize smoke[] = { KIB, MIB };
  static const gsize usual[] = { 64, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB };
  const gsize *sizes = options->run.smoke ? smoke : usual;
  guint n_sizes = options->run.smoke ? G_N_ELEMENTS (smoke) : G_N_ELEMENTS (usual);

  for (guint op = TPS_TRANSFER_PUSH; op <= TPS_TRANSFER_ECHO; op++)
    for (guint i = 0; i < n_sizes; i++)
      add_row (options, rows, (TpsTransferOp) op, sizes[i], 1, 1);
}

static void
add_streams (const TpsTransferOptions *options, GArray *rows)
{
  add_row (options, rows, TPS_TRANSFER_PUSH, KIB, 1, 8);
  add_row (options, rows, TPS_TRANSFER_PUSH, KIB, 8, 1);
  add_row (options, rows, TPS_TRANSFER_PUSH, MIB, 1, 4);
  add_row (options, rows, TPS_TRANSFER_PUSH, MIB, 8, 1);
}

/* Adds the row that the flags describe, for one operation or for each operation. */
static void
add_described (const TpsTransferOptions *options, GArray *rows)
{
  for (guint op = TPS_TRANSFER_PUSH; op <= TPS_TRANSFER_ECHO; op++)
    if (options->op == NULL || g_str_equal (options->op, tps_transfer_op_name ((TpsTransferOp) op)))
      add_row (options, rows, (TpsTransferOp) op, (gsize) options->bytes,
               (guint) options->connections, (guint) options->in_flight);
}

GArray *
tps_transfer_plan_rows (const TpsTransferOptions *options)
{
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (TpsTransferRow));

  if (options->has_row)
    {
      add_described (options, rows);
      return rows;
    }
  add_sizes (options, rows);
  add_streams (options, rows);
  return rows;
}

gsize
tps_transfer_plan_max_bytes (GArray *rows)
{
  gsize max_bytes = 0;

  for (guint i = 0; i < rows->len; i++)
    {
      const TpsTransferRow *row = &g_array_index (rows, TpsTransferRow, i);

      max_bytes = MAX (max_bytes, row->n_bytes * row->n_in_flight);
    }
  return MIN (max_bytes, TPS_TRANSFER_MAX_BYTES);
}

TpsTransferRow
tps_transfer_plan_warm_up (const TpsTransferRow *row)
{
  TpsTransferRow short_row = *row;

  short_row.n_calls = MAX (MIN (row->n_calls, WARM_UP_CALLS), row->n_connections);
  return short_row;
}

gdouble
tps_transfer_plan_seconds (const TpsTransferSystemSpec *spec, const TpsTransferRow *row)
{
  return ROW_S + row->n_calls * spec->call_us / 1e6
         + tps_transfer_row_get_bytes (row) / (spec->gb_per_s * 1e9);
}

/* -- systems -- */

#define LIBTHRIFT "bench/peers/thrift/libthrift_transfer"
#define C_GLIB "bench/peers/thrift/c_glib_transfer"
#define TENSORPIPE "bench/peers/pytorch_transfer.py"

#define MAX_BYTES TPS_TRANSFER_MAX_BYTES
#define TLS TPS_TRANSFER_WITH_TLS
#define PEERS TPS_TRANSFER_WITH_PEERS

/* In the order of the report. */
static const TpsTransferSystemSpec systems[] = {
  { "thriftps", "tcp", "ours", TPS_VERSION, 7, 7 },
  { "raw", "tcp", "raw", "blocking socket", 30, 3 },
  { "thriftps", "unix", "ours", TPS_VERSION, 7, 5 },
  { "raw", "unix", "raw", "blocking socket", 30, 5 },
  { "thriftps", "shm", "ours-shared", TPS_VERSION, 7, 15 },
  { "raw", "shm", "raw-shared", "copy and wake-up", 57, 8, .max_bytes_in_flight = MAX_BYTES },
  { "memcpy", "shm", "memcpy", "one thread", 0, 9, 0, 1, 1, .has_no_server = TRUE },
  { "thriftps", "tls", "ours-tls", TPS_VERSION, 30, 1, TLS },
  { "libthrift TThreaded", "tcp", "threaded", "0.17", 65, 0.9, PEERS, 0, 1, .program = LIBTHRIFT },
  { "C GLib", "tcp", "simple", "0.17", 11, 0.3, PEERS, 1, 1, .program = C_GLIB },
  { "tensorpipe", "tcp", "tcp", "python3-torch, TCP alone", 490, 1.5, PEERS, 1,
    .script = TENSORPIPE },
  { "tensorpipe", "shm", "default", "python3-torch, its default transports", 310, 2, PEERS, 1,
    .script = TENSORPIPE },
  { "openssl", "tls", "openssl", "s_client and s_server", 5000, 1, TLS | PEERS, 1, 1, TRUE,
    .is_one_way = TRUE, .has_no_cpu = TRUE, .min_bytes = 1 << 20 },
};

GPtrArray *
tps_transfer_plan_systems (const TpsTransferOptions *options, GError **error)
{
  g_autoptr (GPtrArray) chosen = g_ptr_array_new ();
  guint given = (options->tls ? TLS : 0) | (options->peers ? PEERS : 0);

  for (guint i = 0; i < G_N_ELEMENTS (systems); i++)
    if ((systems[i].needs & ~given) == 0
        && (options->transport == NULL || g_str_equal (options->transport, systems[i].transport))
        && (options->system == NULL || g_str_equal (options->system, systems[i].name)))
      g_ptr_array_add (chosen, (gpointer) (gsize) &systems[i]);
  if (chosen->len > 0)
    return g_steal_pointer (&chosen);
  tps_flags_refuse (
      "system", options->system,
      "thriftps, raw or memcpy, or with --peers one of libthrift TThreaded, C GLib, tensorpipe and "
      "(--tls) openssl, on a transport that it has",
      error);
  return NULL;
}
