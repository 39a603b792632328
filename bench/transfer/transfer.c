/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How fast bytes and small calls go through the plugin, next to the limit of the machine measured
 * in the same run.
 *
 *   push 16 MiB tcp   one gradient there, an empty answer back; GB/s = bytes of the gradient / time. Limit: a blocking
 *                     socket that sends the same bytes and waits for one byte.
 *   small calls       calls a second of 8 clients, one call in flight each. Peer: Thrift's C++ TThreadedServer.
 *
 * Runs are interleaved; a figure is the median of the runs' figures. Answers are checked by the
 * clients.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/transfer/call_load.h"
#include "bench/process/interrupt.h"
#include "bench/report/json_output.h"
#include "bench/process/runfiles.h"
#include "bench/process/supervisor.h"
#include "bench/transfer/tcp.h"
#include "bench/transfer/transfer_server.h"
#include "plugin/client/client.h"
#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/sync.h"

#define PUSH_BYTES ((gsize) 16 << 20)
#define N_CLIENTS 8
#define CALL_NS G_GINT64_CONSTANT (30000000000)

static struct
{
  gchar *json;
  gint repeats;
  gint pushes;
  gdouble seconds;
  gboolean smoke;
  gboolean serve_ours;
  gboolean serve_raw;
} flags = { .repeats = 5, .pushes = 20, .seconds = 1 };

static const GOptionEntry entries[] = {
  { "json", 0, 0, G_OPTION_ARG_FILENAME, &flags.json, "write the figures with all samples",
    "FILE" },
  { "repeats", 0, 0, G_OPTION_ARG_INT, &flags.repeats, "runs of each figure, in turn (5)", "N" },
  { "pushes", 0, 0, G_OPTION_ARG_INT, &flags.pushes, "pushes in a run (20)", "N" },
  { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &flags.seconds, "length of a run of small calls (1)",
    "S" },
  { "smoke", 0, 0, G_OPTION_ARG_NONE, &flags.smoke, "one short run of each", NULL },
  { "serve-ours", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &flags.serve_ours, NULL, NULL },
  { "serve-raw", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &flags.serve_raw, NULL, NULL },
  { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
};

typedef struct
{
  const gchar *name;
  const gchar *unit;
  const gchar *peer_name;
  const gchar *peer_version;
  GArray *ours; /* of gdouble, one a run */
  GArray *peer;
} Comparison;

typedef struct
{
  TpsSupervisor *supervisor;
  guint16 ours_port;
  guint16 raw_port;
  guint16 cpp_port;
  TpsBuffer *gradient;
  TpsClient *client;
  gint raw_fd;
  Comparison push;
  Comparison calls;
} Transfer;

/* Starts a server process and reads where it listens. Its end of input stays open as long as we
 * live. */
static gboolean
start_server (Transfer *transfer, const gchar *name, const gchar *program, const gchar *flag,
              guint16 *port, GError **error)
{
  gchar *argv[] = { g_strdup (program), g_strdup (flag), NULL };
  gint to_server, from_server;
  gchar line[256] = "";
  const gchar *colon;
  FILE *stream;
  gboolean ok = tps_supervisor_start (transfer->supervisor, name, argv, &to_server, &from_server,
                                      error);

  g_free (argv[0]);
  g_free (argv[1]);
  if (!ok)
    return FALSE;
  stream = fdopen (from_server, "r");
  colon = fgets (line, sizeof line, stream) != NULL ? strrchr (line, ':') : NULL;
  fclose (stream);
  if (colon == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s did not come up", name);
      return FALSE;
    }
  *port = (guint16) g_ascii_strtoull (colon + 1, NULL, 10);
  return TRUE;
}

static gboolean
start_servers (Transfer *transfer, GError **error)
{
  g_autofree gchar *self = tps_bench_find_program ();
  g_autofree gchar *cpp = tps_bench_find_file ("bench/libthrift_server", error);

  return cpp != NULL
         && start_server (transfer, "thriftps", self, "--serve-ours", &transfer->ours_port, error)
         && start_server (transfer, "raw socket", self, "--serve-raw", &transfer->raw_port, error)
         && start_server (transfer, "libthrift TThreadedServer", cpp, NULL, &transfer->cpp_port,
                          error);
}

static gboolean
connect_all (Transfer *transfer, GError **error)
{
  g_autofree gchar *address = g_strdup_printf ("127.0.0.1:%u", transfer->ours_port);
  TpsClientOptions options = { .address = address };

  transfer->gradient = tps_buffer_new_zeroed (PUSH_BYTES);
  transfer->client = tps_client_new (&options, error);
  transfer->raw_fd = transfer->client != NULL ? tps_tcp_connect (transfer->raw_port, error) : -1;
  return transfer->raw_fd >= 0;
}

/* Sink.push (1: Tensor): FLOAT32 [PUSH_BYTES / 4]. */
static void
write_gradient (TpsWriter *out, gconstpointer data)
{
  const Transfer *transfer = data;

  tps_writer_field (out, 1, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, 1);
  tps_writer_field (out, 2, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_I64, 1);
  tps_writer_i64 (out, PUSH_BYTES / 4);
  tps_writer_field (out, 3, TPS_WIRE_BINARY);
  tps_writer_binary_buffer (out, transfer->gradient, 0, PUSH_BYTES);
  tps_writer_struct_end (out);
}

static gboolean
push_ours (Transfer *transfer, GError **error)
{
  return tps_client_call_sync (transfer->client, "Sink", "push", write_gradient, transfer,
                               tps_clock_now_ns () + CALL_NS, NULL, NULL, error);
}

static gboolean
push_raw (Transfer *transfer, GError **error)
{
  guint8 ack;

  if (tps_tcp_send_all (transfer->raw_fd, tps_buffer_get_data (transfer->gradient), PUSH_BYTES)
      && tps_tcp_receive_all (transfer->raw_fd, &ack, 1))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "the raw socket's server is gone");
  return FALSE;
}

static gint
compare_doubles (gconstpointer a, gconstpointer b)
{
  gdouble x = *(const gdouble *) a, y = *(const gdouble *) b;

  return (x > y) - (x < y);
}

static gdouble
median (const GArray *values)
{
  g_autoptr (GArray) sorted = g_array_copy ((GArray *) (guintptr) values);

  g_array_sort (sorted, compare_doubles);
  return (g_array_index (sorted, gdouble, (sorted->len - 1) / 2)
          + g_array_index (sorted, gdouble, sorted->len / 2))
         / 2;
}

/* Ours and the raw socket's push by push in turn: the median time of each. */
static gboolean
run_pushes (Transfer *transfer, GError **error)
{
  g_autoptr (GArray) ours = g_array_new (FALSE, FALSE, sizeof (gdouble));
  g_autoptr (GArray) raw = g_array_new (FALSE, FALSE, sizeof (gdouble));
  gdouble gb_per_s;

  for (gint i = 0; i < flags.pushes; i++)
    {
      gint64 start_ns = tps_clock_now_ns (), middle_ns;
      gdouble span_ns;

      if (!push_ours (transfer, error))
        return FALSE;
      middle_ns = tps_clock_now_ns ();
      if (!push_raw (transfer, error))
        return FALSE;
      span_ns = (gdouble) (middle_ns - start_ns);
      g_array_append_val (ours, span_ns);
      span_ns = (gdouble) (tps_clock_now_ns () - middle_ns);
      g_array_append_val (raw, span_ns);
    }
  gb_per_s = (gdouble) PUSH_BYTES / median (ours);
  g_array_append_val (transfer->push.ours, gb_per_s);
  gb_per_s = (gdouble) PUSH_BYTES / median (raw);
  g_array_append_val (transfer->push.peer, gb_per_s);
  return TRUE;
}

static gboolean
run_calls (Transfer *transfer, GError **error)
{
  gdouble ours = tps_call_load_run (transfer->ours_port, N_CLIENTS, flags.seconds, error);
  gdouble cpp = ours < 0 ? -1
                         : tps_call_load_run (transfer->cpp_port, N_CLIENTS, flags.seconds, error);

  if (cpp < 0)
    return FALSE;
  g_array_append_val (transfer->calls.ours, ours);
  g_array_append_val (transfer->calls.peer, cpp);
  return TRUE;
}

static gboolean
run (Transfer *transfer, GError **error)
{
  if (!start_servers (transfer, error) || !connect_all (transfer, error))
    return FALSE;
  for (gint i = 0; i < 3; i++) /* warm-up: connections, pools, page tables */
    if (!push_ours (transfer, error) || !push_raw (transfer, error))
      return FALSE;
  for (gint i = 0; i < flags.repeats; i++)
    {
      fprintf (stderr, "run %d of %d\n", i + 1, flags.repeats);
      if (!tps_interrupt_check (error) || !tps_supervisor_check (transfer->supervisor, error)
          || !run_pushes (transfer, error) || !run_calls (transfer, error))
        return FALSE;
    }
  return TRUE;
}

static void
print_comparison (const Comparison *c)
{
  gdouble ours = median (c->ours), peer = median (c->peer);

  printf ("%-22s %10.4g %-8s  %-26s %10.4g  %6.3f\n", c->name, ours, c->unit, c->peer_name, peer,
          ours / peer);
}

static void
add_comparison (TpsBenchOutput *output, const Comparison *c)
{
  TpsBenchSystem *peer = tps_bench_output_add_peer (output, c->peer_name, c->peer_version);
  g_autofree gchar *ratio = g_strdup_printf ("%s / %s", c->name, c->peer_name);

  tps_bench_system_add_figure (&output->ours, c->name, c->unit, c->ours);
  tps_bench_system_add_figure (peer, c->name, c->unit, c->peer);
  tps_bench_output_add_ratio (output, ratio, median (c->ours), median (c->peer), "higher");
}

static gboolean
write_json (const Transfer *transfer, GError **error)
{
  g_autoptr (GPtrArray) described = g_ptr_array_new_with_free_func (g_free);
  g_auto (TpsBenchOutput) output;

  g_ptr_array_add (described, g_strdup_printf ("repeats=%d", flags.repeats));
  g_ptr_array_add (described, g_strdup_printf ("pushes=%d", flags.pushes));
  g_ptr_array_add (described, g_strdup_printf ("seconds=%g", flags.seconds));
  tps_bench_output_init (&output, "transfer", described);
  add_comparison (&output, &transfer->push);
  add_comparison (&output, &transfer->calls);
  return tps_bench_output_write_json (&output, flags.json, error);
}

static gboolean
report (const Transfer *transfer, GError **error)
{
  printf ("%-22s %10s %-8s  %-26s %10s  %6s\n", "median of the runs", "ThriftPS", "unit", "beside",
          "it", "ratio");
  print_comparison (&transfer->push);
  print_comparison (&transfer->calls);
  return flags.json == NULL || write_json (transfer, error);
}

static void
comparison_clear (Comparison *c)
{
  g_array_unref (c->ours);
  g_array_unref (c->peer);
}

static void
transfer_clear (Transfer *transfer)
{
  g_clear_pointer (&transfer->client, tps_client_free);
  g_clear_pointer (&transfer->gradient, tps_buffer_unref);
  if (transfer->raw_fd >= 0)
    close (transfer->raw_fd);
  tps_supervisor_free (transfer->supervisor);
  comparison_clear (&transfer->push);
  comparison_clear (&transfer->calls);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Transfer, transfer_clear)

static gint
run_benchmark (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *host = tps_bench_describe_host ();
  g_auto (Transfer) transfer = {
    .supervisor = tps_supervisor_new (),
    .raw_fd = -1,
    .push = { "push 16 MiB tcp", "GB/s", "raw", "blocking socket", NULL, NULL },
    .calls = { "small calls, 8 clients", "calls/s", "libthrift TThreadedServer", "0.17", NULL,
               NULL },
  };

  transfer.push.ours = g_array_new (FALSE, FALSE, sizeof (gdouble));
  transfer.push.peer = g_array_new (FALSE, FALSE, sizeof (gdouble));
  transfer.calls.ours = g_array_new (FALSE, FALSE, sizeof (gdouble));
  transfer.calls.peer = g_array_new (FALSE, FALSE, sizeof (gdouble));
  printf ("transfer: repeats=%d pushes=%d seconds=%g\nhost: %s\n", flags.repeats, flags.pushes,
          flags.seconds, host);
  fflush (stdout);
  if (run (&transfer, &error) && report (&transfer, &error))
    return 0;
  fprintf (stderr, "transfer: %s\n", error->message);
  return tps_interrupt_is_set () ? 130 : 1;
}

static gboolean
parse_flags (gint *argc, gchar ***argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context, "Measures how fast gradients and small calls go through the plugin, next to a raw "
               "socket and to Thrift's C++ server.");
  g_option_context_set_description (
      context, "Exit status: 0 done, 1 failed, 2 a bad flag, 130 interrupted.");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  if (flags.smoke)
    {
      flags.repeats = 1;
      flags.pushes = 2;
      flags.seconds = 0.1;
    }
  if (*argc == 1 && flags.repeats > 0 && flags.pushes > 0 && flags.seconds > 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               *argc > 1 ? "unexpected argument"
                         : "--repeats, --pushes and --seconds must be more than 0");
  return FALSE;
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;

  if (!parse_flags (&argc, &argv, &error))
    {
      fprintf (stderr, "transfer: %s (see --help)\n", error->message);
      return 2;
    }
  if (flags.serve_ours)
    return tps_transfer_serve_ours ();
  if (flags.serve_raw)
    return tps_transfer_serve_raw (PUSH_BYTES);
  tps_interrupt_install ();
  return run_benchmark ();
}
