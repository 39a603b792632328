/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/options.h"

#include <sys/resource.h>

#include "bench/transfer/pattern.h"
#include "runtime/error.h"

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
      "tcp, unix or shm alone, a Unix socket with shared memory (all)", "NAME" },
    { "system", 0, 0, G_OPTION_ARG_STRING, &o->system,
      "thriftps, raw, memcpy or a peer alone, by its name (all)", "NAME" },
    { "op", 0, 0, G_OPTION_ARG_STRING, &o->op,
      "one row only: push, pull or echo (default: a table of rows)", "NAME" },
    { "bytes", 0, 0, G_OPTION_ARG_INT64, &o->bytes,
      "its bytes, 4 to 268435456, a multiple of 4 (16 MiB)", "N" },
    { "connections", 0, 0, G_OPTION_ARG_INT, &o->connections, "its connections, 1 to 64 (1)", "N" },
    { "in-flight", 0, 0, G_OPTION_ARG_INT, &o->in_flight,
      "its calls in flight on each connection, 1 to 32 (1)", "N" },
    { "calls", 0, 0, G_OPTION_ARG_INT, &o->calls, "calls of a row in a round (by its size)", "N" },
    { "full", 0, 0, G_OPTION_ARG_NONE, &o->full,
      "everything: up to 256 MiB, 64 connections, 10000 idle connections", NULL },
    { "peers", 0, 0, G_OPTION_ARG_NONE, &o->peers,
      "the same rows on Thrift's C++ and C GLib libraries and on PyTorch's TensorPipe", NULL },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &o->seconds,
      "length of a round of small calls, 8 clients; 0 = none (1)", "S" },
    { "idle", 0, 0, G_OPTION_ARG_INT, &o->idle,
      "small calls beside so many idle connections, and what these cost (0; 10000 with --full)",
      "N" },
    { "plot", 0, 0, G_OPTION_ARG_FILENAME, &o->plot, "GB/s over bytes as .png or .svg (gnuplot)",
      "FILE" },
    { "serve", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->serve, NULL, NULL },
    { "load", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->load, NULL, NULL },
    { "address", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->address, NULL, NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

static void
fill_in_defaults (TpsTransferOptions *options)
{
  if (options->run.repeats == 0)
    options->run.repeats = options->run.smoke ? 1 : DEFAULT_REPEATS;
  if (options->run.smoke)
    options->seconds = MIN (options->seconds, 0.1);
  if (options->idle == NOT_SAID)
    options->idle = options->full && options->seconds > 0
                        ? MIN (FULL_IDLE, tps_transfer_options_get_max_idle ())
                        : 0;
  tps_flags_resolve_path (&options->plot);
}

static gboolean
check_words (const TpsTransferOptions *options, GError **error)
{
  static const gchar *const transports[] = { "tcp", "unix", "shm", NULL };
  static const gchar *const ops[] = { "push", "pull", "echo", NULL };

  return (options->transport == NULL
          || tps_flags_check_word ("transport", options->transport, transports, error))
         && (options->op == NULL || tps_flags_check_word ("op", options->op, ops, error));
}

static gboolean
check_numbers (const TpsTransferOptions *options, GError **error)
{
  if (options->bytes % 4 != 0)
    {
      g_autofree gchar *value = g_strdup_printf ("%" G_GINT64_FORMAT, options->bytes);

      return tps_flags_refuse ("bytes", value, "a multiple of 4", error);
    }
  return tps_flags_check_number ("bytes", options->bytes, 4, TPS_TRANSFER_MAX_BYTES, error)
         && tps_flags_check_number ("connections", options->connections, 1, 64, error)
         && tps_flags_check_number ("in-flight", options->in_flight, 1, 32, error)
         && tps_flags_check_number ("calls", options->calls, 0, 1000000, error)
         && tps_flags_check_number ("idle", options->idle, 0, tps_transfer_options_get_max_idle (),
                                    error)
         && (options->seconds >= 0
             || tps_flags_refuse ("seconds", "less than 0", "0 or more", error))
         && (options->seconds > 0 || options->idle == 0
             || tps_flags_refuse ("seconds", "0", "more than 0 with --idle", error));
}

gboolean
tps_transfer_options_parse (TpsTransferOptions *options, gint argc, gchar **argv, GError **error)
{
  static const gchar *const none[] = { NULL };
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_auto (GStrv) given = NULL;

  *options = (TpsTransferOptions) {
    .bytes = DEFAULT_BYTES, .connections = 1, .in_flight = 1, .seconds = 1, .idle = NOT_SAID
  };
  g_option_context_set_summary (
      context,
      "Measures how fast tensors and small calls go through the plugin, next to raw sockets, raw "
      "shared memory and memcpy,\nand the libraries that others use.");
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
  gchar *strings[] = { options->transport, options->system, options->op,     options->plot,
                       options->serve,     options->load,   options->address };

  for (guint i = 0; i < G_N_ELEMENTS (strings); i++)
    g_free (strings[i]);
  tps_run_flags_clear (&options->run);
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
  tps_flags_add_number (lines, "full", options->full);
  tps_flags_add_number (lines, "peers", options->peers);
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
