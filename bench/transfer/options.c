/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/options.h"

#include <sys/resource.h>

#include "bench/transfer/system/pattern.h"

#define FULL_IDLE 10000
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
  { "full", G_OPTION_ARG_NONE, FIELD (full),
    "everything: up to 256 MiB, 64 connections, 10000 idle connections" },
  { "chunks", G_OPTION_ARG_NONE, FIELD (chunks),
    "the same rows on ThriftPS over TCP to a server that takes frames of 32 MiB: larger tensors go "
    "in chunks" },
  { "peers", G_OPTION_ARG_NONE, FIELD (peers),
    "the same rows on Thrift's C++ and C GLib libraries and on PyTorch's TensorPipe" },
  { "tls", G_OPTION_ARG_NONE, FIELD (tls),
    "the same rows on ThriftPS over TCP with TLS 1.3, whose certificate is made for the run; with "
    "--peers also openssl s_client and s_server, and handshakes by openssl s_time" },
  { "seconds", G_OPTION_ARG_DOUBLE, FIELD (seconds),
    "length of a round of small calls to ThriftPS over TCP, 8 clients; 0 = none (1)", "S",
    TPS_FLAGS_NOT_GIVEN },
  { "idle", G_OPTION_ARG_INT, FIELD (idle),
    "such calls beside so many idle connections, and what these cost (0; 10000 with --full)", "N",
    TPS_FLAGS_NOT_GIVEN },
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
  tps_flags_default_number (&options->idle, options->full && options->seconds > 0 ? MIN (
                                                FULL_IDLE, tps_transfer_options_get_max_idle ())
                                                                                  : 0);
}

/* Checks the options of small calls. Refuses a length or a number that no selected system would
 * use. */
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
