/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/options.h"

#include <sys/resource.h>

#include "bench/transfer/system/pattern.h"
#include "runtime/base/error.h"

#define DEFAULT_BYTES (16 << 20)
#define DEFAULT_REPEATS 5
#define FULL_IDLE 10000
#define MAX_IDLE 60000
#define NOT_SAID G_MININT
#define OTHER_DESCRIPTORS 256

static void
add_entries (GOptionContext *context, TpsTransferOptions *o)
{
  const GOptionEntry entries[] = {
    { "transport", 0, 0, G_OPTION_ARG_STRING, &o->transport,
      "one transport alone: tcp, unix, shm, which is a Unix socket with shared memory, or tls, "
      "which means --tls (default: the first three)",
      "NAME" },
    { "system", 0, 0, G_OPTION_ARG_STRING, &o->system,
      "one system alone: thriftps, raw, memcpy or a peer by its name (default: all)", "NAME" },
    { "op", 0, 0, G_OPTION_ARG_STRING, &o->op,
      "push, pull or echo alone, and a row of it instead of the table (default: all)", "NAME" },
    { "bytes", 0, 0, G_OPTION_ARG_INT64, &o->bytes,
      "a row of such tensors instead of the table: 4 to 268435456, a multiple of 4 (16 MiB)", "N" },
    { "connections", 0, 0, G_OPTION_ARG_INT, &o->connections,
      "a row with so many connections instead of the table, 1 to 64 (1)", "N" },
    { "in-flight", 0, 0, G_OPTION_ARG_INT, &o->in_flight,
      "a row with so many calls in flight on each connection, 1 to 32 (1)", "N" },
    { "calls", 0, 0, G_OPTION_ARG_INT, &o->calls, "calls of a row in a round (by its size)", "N" },
    { "full", 0, 0, G_OPTION_ARG_NONE, &o->full,
      "everything: up to 256 MiB, 64 connections, 10000 idle connections", NULL },
    { "chunks", 0, 0, G_OPTION_ARG_NONE, &o->chunks,
      "the same rows on ThriftPS over TCP to a server that takes frames of 32 MiB: larger tensors go in chunks",
      NULL },
    { "peers", 0, 0, G_OPTION_ARG_NONE, &o->peers,
      "the same rows on Thrift's C++ and C GLib libraries and on PyTorch's TensorPipe", NULL },
    { "tls", 0, 0, G_OPTION_ARG_NONE, &o->tls,
      "the same rows on ThriftPS over TCP with TLS 1.3, whose certificate is made for the run; "
      "with --peers also openssl s_client and s_server, and handshakes by openssl s_time",
      NULL },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &o->seconds,
      "length of a round of small calls to ThriftPS over TCP, 8 clients; 0 = none (1)", "S" },
    { "idle", 0, 0, G_OPTION_ARG_INT, &o->idle,
      "such calls beside so many idle connections, and what these cost (0; 10000 with --full)",
      "N" },
    { "serve", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->serve, NULL, NULL },
    { "load", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->load, NULL, NULL },
    { "address", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->address, NULL, NULL },
    { "certificate", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &o->certificate, NULL, NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

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
  options->has_row = options->op != NULL || options->bytes != NOT_SAID
                     || options->connections != NOT_SAID || options->in_flight != NOT_SAID;
  if (options->bytes == NOT_SAID)
    options->bytes = DEFAULT_BYTES;
  if (options->connections == NOT_SAID)
    options->connections = 1;
  if (options->in_flight == NOT_SAID)
    options->in_flight = 1;
}

static void
fill_in_defaults (TpsTransferOptions *options)
{
  fill_in_row (options);
  options->tls = options->tls || g_strcmp0 (options->transport, "tls") == 0;
  if (options->run.repeats == TPS_FLAGS_NOT_GIVEN)
    options->run.repeats = options->run.smoke ? 1 : DEFAULT_REPEATS;
  if (options->seconds == NOT_SAID)
    options->seconds = has_small_calls (options) ? 1 : 0;
  if (options->run.smoke)
    options->seconds = MIN (options->seconds, 0.1);
  if (options->idle == NOT_SAID)
    options->idle = options->full && options->seconds > 0
                        ? MIN (FULL_IDLE, tps_transfer_options_get_max_idle ())
                        : 0;
}

static gboolean
check_words (const TpsTransferOptions *options, GError **error)
{
  static const gchar *const transports[] = { "tcp", "unix", "shm", "tls", NULL };
  static const gchar *const ops[] = { "push", "pull", "echo", NULL };

  return (options->transport == NULL
          || tps_flags_check_word ("transport", options->transport, transports, error))
         && (options->op == NULL || tps_flags_check_word ("op", options->op, ops, error));
}

static gboolean
check_row (const TpsTransferOptions *options, GError **error)
{
  if (options->bytes % 4 != 0)
    {
      g_autofree gchar *value = g_strdup_printf ("%" G_GINT64_FORMAT, options->bytes);

      return tps_flags_refuse ("bytes", value, "a multiple of 4", error);
    }
  return tps_flags_check_number ("bytes", options->bytes, 4, TPS_TRANSFER_MAX_BYTES, error)
         && tps_flags_check_number ("connections", options->connections, 1, 64, error)
         && tps_flags_check_number ("in-flight", options->in_flight, 1, 32, error)
         && tps_flags_check_number ("calls", options->calls, 0, 1000000, error);
}

/* Checks the options of small calls. Refuses a length or a number that no selected system would
 * use. */
static gboolean
check_small_calls (const TpsTransferOptions *options, GError **error)
{
  gboolean is_idle = options->idle > 0;
  g_autofree gchar *value = is_idle ? g_strdup_printf ("%d", options->idle)
                                    : g_strdup_printf ("%g", options->seconds);

  if (options->seconds < 0)
    return tps_flags_refuse ("seconds", value, "0 or more", error);
  if ((is_idle || options->seconds > 0) && !has_small_calls (options))
    return tps_flags_refuse (is_idle ? "idle" : "seconds", value,
                             "ThriftPS over TCP, where small calls go: no --transport but tcp, no "
                             "--system but thriftps",
                             error);
  return options->seconds > 0 || !is_idle
         || tps_flags_refuse ("seconds", "0", "more than 0 with --idle", error);
}

static gboolean
check_numbers (const TpsTransferOptions *options, GError **error)
{
  return check_row (options, error)
         && tps_flags_check_number ("idle", options->idle, 0, tps_transfer_options_get_max_idle (),
                                    error)
         && check_small_calls (options, error);
}

gboolean
tps_transfer_options_parse (TpsTransferOptions *options, gint argc, gchar **argv, GError **error)
{
  static const gchar *const none[] = { NULL };
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_auto (GStrv) given = NULL;

  *options = (TpsTransferOptions) { .bytes = NOT_SAID,
                                    .connections = NOT_SAID,
                                    .in_flight = NOT_SAID,
                                    .seconds = NOT_SAID,
                                    .idle = NOT_SAID };
  g_option_context_set_summary (
      context,
      "Measures how fast tensors and small calls go through the plugin, next to raw sockets, raw "
      "shared memory and memcpy,\nand other libraries.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  add_entries (context, options);
  tps_run_flags_add (context, &options->run, NULL);
  if (!tps_flags_parse (context, argc, argv, &given, error))
    return FALSE;
  fill_in_defaults (options);
  return tps_run_flags_finish (&options->run, none, error) && check_words (options, error)
         && check_numbers (options, error);
}

void
tps_transfer_options_clear (TpsTransferOptions *options)
{
  gchar *strings[] = {
    options->transport, options->system,  options->op,          options->serve,
    options->load,      options->address, options->certificate,
  };

  for (guint i = 0; i < G_N_ELEMENTS (strings); i++)
    g_free (strings[i]);
  tps_run_flags_clear (&options->run);
}

static void
describe_row (const TpsTransferOptions *options, GPtrArray *lines)
{
  tps_flags_add_number (lines, "bytes", (gdouble) options->bytes);
  tps_flags_add_number (lines, "connections", options->connections);
  tps_flags_add_number (lines, "in-flight", options->in_flight);
}

GPtrArray *
tps_transfer_options_describe (const TpsTransferOptions *options)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (lines, "repeats", options->run.repeats);
  tps_flags_add_number (lines, "seconds", options->seconds);
  tps_flags_add_text (lines, "transport", options->transport);
  tps_flags_add_text (lines, "system", options->system);
  tps_flags_add_text (lines, "op", options->op);
  if (options->has_row)
    describe_row (options, lines);
  tps_flags_add_number (lines, "calls", options->calls);
  tps_flags_add_number (lines, "smoke", options->run.smoke);
  tps_flags_add_number (lines, "full", options->full);
  tps_flags_add_number (lines, "chunks", options->chunks);
  tps_flags_add_number (lines, "peers", options->peers);
  tps_flags_add_number (lines, "tls", options->tls);
  tps_flags_add_number (lines, "idle", options->idle);
  return lines;
}

gint
tps_transfer_options_get_max_idle (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max <= OTHER_DESCRIPTORS)
    return 0;
  return (gint) MIN (limit.rlim_max - OTHER_DESCRIPTORS, MAX_IDLE);
}
