/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How fast rows of embedding tables are found: summed up in bags in this process, next to a raw gather of the same rows and,
 * if asked for, to PyTorch's EmbeddingBag; and looked up by RPC.
 *
 * All systems work on the same ids in turn, round after round, so that what disturbs one disturbs all. A figure is the median
 * of the rounds. Every system's sums, and the rows that come by RPC, are checked.
 */

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/lookup/figures.h"
#include "bench/lookup/local.h"
#include "bench/lookup/remote.h"
#include "bench/process/child.h"
#include "bench/process/flags.h"
#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "runtime/base/cores.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/version.h"

#define PEER_SCRIPT "bench/peers/pytorch_embedding_bag.py"
#define MAX_SETS 16
#define MAX_THREADS 64
#define PROGRESS_NS G_GINT64_CONSTANT (5000000000)

static struct
{
  TpsRunFlags run;
  gchar *peer, *only, *serve, *device;
  TpsTablePlace place; /* of the device */
  gint64 n_rows, dim, n_bags, bag_length, n_batches;
  gint n_threads;
  gint64 remote_dim, n_ids, n_calls;
  gint n_clients;
  gdouble seconds;
  gchar **given;
} flags = { .n_rows = 1000000,
            .dim = 64,
            .n_bags = 4096,
            .bag_length = 20,
            .n_batches = 200,
            .remote_dim = 16,
            .n_ids = 2000,
            .n_calls = 2000,
            .n_clients = 4,
            .seconds = 1 };

static const GOptionEntry entries[] = {
  { "rows", 0, 0, G_OPTION_ARG_INT64, &flags.n_rows, "rows of the tables (1000000)", "N" },
  { "dim", 0, 0, G_OPTION_ARG_INT64, &flags.dim, "floats of a row that is summed up (64)", "N" },
  { "bags", 0, 0, G_OPTION_ARG_INT64, &flags.n_bags, "bags of a batch (4096)", "N" },
  { "bag-length", 0, 0, G_OPTION_ARG_INT64, &flags.bag_length, "ids of a bag (20)", "N" },
  { "batches", 0, 0, G_OPTION_ARG_INT64, &flags.n_batches, "batches of a round (200)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &flags.n_threads,
    "besides one thread, so many (one a core, 2 at most)", "N" },
  { "peer", 0, 0, G_OPTION_ARG_STRING, &flags.peer, "pytorch: its EmbeddingBag on the same ids",
    "NAME" },
  { "remote-dim", 0, 0, G_OPTION_ARG_INT64, &flags.remote_dim,
    "floats of a row that is looked up by RPC (16)", "N" },
  { "ids", 0, 0, G_OPTION_ARG_INT64, &flags.n_ids, "rows of a lookup by RPC (2000)", "N" },
  { "calls", 0, 0, G_OPTION_ARG_INT64, &flags.n_calls,
    "lookups of a round, one after the other (2000)", "N" },
  { "clients", 0, 0, G_OPTION_ARG_INT, &flags.n_clients, "clients under load (4)", "N" },
  { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &flags.seconds, "length of a round of load (1)", "S" },
  { "device", 0, 0, G_OPTION_ARG_STRING, &flags.device,
    "where the store's and the server's tables are: cpu, cuda, cuda:N, or cuda:N/host in memory of "
    "the host (cpu)",
    "DEVICE" },
  { "only", 0, 0, G_OPTION_ARG_STRING, &flags.only, "one part: local or remote", "PART" },
  { "serve", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &flags.serve, NULL, NULL },
  { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
};

typedef struct
{
  TpsSupervisor *supervisor;
  gchar *folder; /* of sockets and ids */
  TpsLookupBags bags;
  TpsLookupLocal *locals[2]; /* one thread, and several */
  guint n_threads[2];
  guint n_locals;
  TpsChild *peer;
  TpsLookupRemote *remote;
  TpsLookupFigures figures;
  gint64 shown_ns; /* when progress was */
} Lookup;

static gboolean
is_asked_for (const gchar *part)
{
  return flags.only == NULL || g_str_equal (flags.only, part);
}

/* -- the peer -- */

/* Its ids, in a file. */
static gchar *
write_ids (const Lookup *lookup, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  gchar *path = g_build_filename (lookup->folder, "ids", NULL);
  gsize n_bytes = shape->n_sets * shape->n_bags * shape->bag_length * sizeof (gint64);

  if (g_file_set_contents (path, (const gchar *) lookup->bags.ids, (gssize) n_bytes, error))
    return path;
  g_free (path);
  return NULL;
}

/* "torch 1.13.0"; owned by the caller. */
static gchar *
receive_version (TpsChild *peer, GError **error)
{
  g_autoptr (GError) local = NULL;
  gchar *line = tps_child_receive (peer, &local);

  if (line != NULL)
    return line;
  if (tps_interrupt_is_set ())
    g_propagate_error (error, g_steal_pointer (&local));
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "%s; its last words are above (%s runs it and needs PyTorch, package "
                 "python3-torch)",
                 local->message, tps_bench_find_python ());
  return NULL;
}

static gboolean
start_peer (Lookup *lookup, GError **error)
{
  g_autofree gchar *ids = write_ids (lookup, error);
  g_autofree gchar *script = tps_bench_find_file (PEER_SCRIPT, error);
  g_autoptr (GPtrArray) argv = g_ptr_array_new_with_free_func (g_free);

  if (ids == NULL || script == NULL)
    return FALSE;
  g_ptr_array_add (argv, g_strdup (tps_bench_find_python ()));
  g_ptr_array_add (argv, g_steal_pointer (&script));
  g_ptr_array_add (argv, g_strdup_printf ("--rows=%" G_GINT64_FORMAT, flags.n_rows));
  g_ptr_array_add (argv, g_strdup_printf ("--dim=%" G_GINT64_FORMAT, flags.dim));
  g_ptr_array_add (argv, g_strdup_printf ("--bags=%" G_GINT64_FORMAT, flags.n_bags));
  g_ptr_array_add (argv, g_strdup_printf ("--bag-length=%" G_GINT64_FORMAT, flags.bag_length));
  g_ptr_array_add (argv, g_strdup_printf ("--ids=%s", ids));
  g_ptr_array_add (argv, NULL);
  lookup->peer = tps_child_start (lookup->supervisor, "PyTorch", (gchar **) argv->pdata, error);
  if (lookup->peer != NULL)
    lookup->figures.peer_version = receive_version (lookup->peer, error);
  return lookup->figures.peer_version != NULL;
}

/* Rows a second, or -1. */
static gdouble
run_peer (Lookup *lookup, guint n_threads, gsize n_batches, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  g_autofree gchar *order = g_strdup_printf ("%u %" G_GSIZE_FORMAT, n_threads, n_batches);
  g_autofree gchar *answer = tps_child_ask (lookup->peer, order, error);
  gdouble seconds, checksum;
  gchar *at;

  if (answer == NULL)
    return -1;
  if (!g_str_has_prefix (answer, "ok "))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "PyTorch: %.300s", answer);
      return -1;
    }
  seconds = g_ascii_strtod (answer + strlen ("ok "), &at);
  checksum = g_ascii_strtod (at, NULL);
  if (!tps_lookup_bags_check (&lookup->bags, (n_batches - 1) % shape->n_sets, checksum, "PyTorch",
                              error))
    return -1;
  return (gdouble) (n_batches * shape->n_bags * shape->bag_length) / seconds;
}

/* -- rounds -- */

/* Once through all ids, so that page tables and caches are what they will be. */
static gsize
choose_n_batches (const Lookup *lookup, gboolean is_warm_up)
{
  return is_warm_up ? lookup->bags.shape.n_sets : (gsize) flags.n_batches;
}

static gboolean
run_local (Lookup *lookup, guint i, gboolean is_warm_up, GError **error)
{
  gsize n_batches = choose_n_batches (lookup, is_warm_up);
  guint n_threads = lookup->n_threads[i];
  g_autofree gchar *title = g_strdup_printf ("%u thread%s", n_threads, n_threads > 1 ? "s" : "");

  for (guint system = 0; system <= TPS_LOOKUP_N_SYSTEMS; system++)
    {
      gboolean is_peer = system == TPS_LOOKUP_N_SYSTEMS;
      const gchar *name = is_peer ? TPS_LOOKUP_PEER
                                  : tps_lookup_system_name ((TpsLookupSystem) system);
      gdouble rows_per_s;

      if (!tps_interrupt_check (error))
        return FALSE;
      if (is_peer && lookup->peer == NULL)
        continue;
      rows_per_s = is_peer ? run_peer (lookup, n_threads, n_batches, error)
                           : tps_lookup_local_run (lookup->locals[i], (TpsLookupSystem) system,
                                                   n_batches, error);
      if (rows_per_s < 0)
        return FALSE;
      if (!is_warm_up)
        tps_lookup_figures_add (&lookup->figures, name, title, "rows/s", rows_per_s);
    }
  return TRUE;
}

static void
add_remote_times (Lookup *lookup, guint transport, const TpsLookupRemoteTimes *times)
{
  const gchar *name = tps_lookup_transport_name (transport);
  g_autofree gchar *load = g_strdup_printf ("%s, %d clients", name, flags.n_clients);
  g_autofree gchar *cpu = g_strdup_printf ("%s, a second of its CPU", name);

  for (guint i = 0; i < times->ms->len; i++)
    tps_lookup_figures_add (&lookup->figures, "lookup", name, "ms",
                            g_array_index (times->ms, gdouble, i));
  tps_lookup_figures_add (&lookup->figures, "lookup", load, "calls/s", times->lookups_per_s);
  tps_lookup_figures_add (&lookup->figures, "server", cpu, "calls", times->lookups_per_cpu_s);
}

static gboolean
run_remote (Lookup *lookup, gboolean is_warm_up, GError **error)
{
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      g_auto (TpsLookupRemoteTimes) times = { 0 };

      if (!tps_interrupt_check (error)
          || !tps_lookup_remote_run (lookup->remote, transport, &times, error))
        return FALSE;
      if (!is_warm_up)
        add_remote_times (lookup, transport, &times);
    }
  return TRUE;
}

static gboolean
run_round (Lookup *lookup, gboolean is_warm_up, GError **error)
{
  for (guint i = 0; i < lookup->n_locals; i++)
    if (!run_local (lookup, i, is_warm_up, error))
      return FALSE;
  return lookup->remote == NULL || run_remote (lookup, is_warm_up, error);
}

/* -- preparations -- */

static gboolean
prepare_local (Lookup *lookup, GError **error)
{
  TpsLookupShape shape = { .n_rows = (gsize) flags.n_rows,
                           .dim = (gsize) flags.dim,
                           .n_bags = (gsize) flags.n_bags,
                           .bag_length = (gsize) flags.bag_length,
                           .n_sets = (gsize) MIN (flags.n_batches, MAX_SETS) };

  tps_lookup_bags_init (&lookup->bags, &shape);
  if (flags.peer != NULL && !start_peer (lookup, error))
    return FALSE;
  for (guint n_threads = 1; n_threads <= (guint) flags.n_threads;
       n_threads += MAX (1, (guint) flags.n_threads - 1))
    {
      guint i = lookup->n_locals;

      lookup->n_threads[i] = n_threads;
      lookup->locals[i] = tps_lookup_local_new (&lookup->bags, n_threads, &flags.place, error);
      if (lookup->locals[i] == NULL)
        return FALSE;
      lookup->n_locals++;
    }
  return TRUE;
}

static gboolean
prepare_remote (Lookup *lookup, GError **error)
{
  TpsLookupRemoteShape shape = { .n_rows = (gsize) flags.n_rows,
                                 .dim = (gsize) flags.remote_dim,
                                 .n_ids = (gsize) flags.n_ids,
                                 .n_calls = (guint) flags.n_calls,
                                 .n_clients = (guint) flags.n_clients,
                                 .seconds = flags.seconds,
                                 .place = flags.place };

  lookup->remote = tps_lookup_remote_new (lookup->supervisor, lookup->folder, &shape, error);
  return lookup->remote != NULL;
}

/* On a terminal at once, elsewhere every few seconds. Run 0 is the warm-up. */
static void
show_progress (Lookup *lookup, gint number)
{
  gboolean is_terminal = isatty (STDERR_FILENO);
  gint64 now_ns = tps_clock_now_ns ();

  if (!is_terminal && (number == 0 || now_ns - lookup->shown_ns < PROGRESS_NS))
    return;
  lookup->shown_ns = now_ns;
  if (number == 0)
    fprintf (stderr, "warm-up\n");
  else
    fprintf (stderr, "run %d of %d\n", number, flags.run.repeats);
}

static gboolean
run (Lookup *lookup, GError **error)
{
  lookup->shown_ns = tps_clock_now_ns ();
  lookup->folder = g_dir_make_tmp ("thriftps-XXXXXX", error);
  if (lookup->folder == NULL || (is_asked_for ("local") && !prepare_local (lookup, error))
      || (is_asked_for ("remote") && !prepare_remote (lookup, error)))
    return FALSE;
  for (gint number = 0; number <= flags.run.repeats; number++)
    {
      show_progress (lookup, number);
      if (!run_round (lookup, number == 0, error))
        return FALSE;
    }
  return TRUE;
}

/* -- the end -- */

static void
describe_flags (GPtrArray *described)
{
  tps_flags_add_number (described, "rows", (gdouble) flags.n_rows);
  tps_flags_add_number (described, "dim", (gdouble) flags.dim);
  tps_flags_add_number (described, "bags", (gdouble) flags.n_bags);
  tps_flags_add_number (described, "bag-length", (gdouble) flags.bag_length);
  tps_flags_add_number (described, "batches", (gdouble) flags.n_batches);
  tps_flags_add_number (described, "threads", flags.n_threads);
  tps_flags_add_text (described, "peer", flags.peer);
  tps_flags_add_number (described, "remote-dim", (gdouble) flags.remote_dim);
  tps_flags_add_number (described, "ids", (gdouble) flags.n_ids);
  tps_flags_add_number (described, "calls", (gdouble) flags.n_calls);
  tps_flags_add_number (described, "clients", flags.n_clients);
  tps_flags_add_number (described, "seconds", flags.seconds);
  tps_flags_add_text (described, "device", flags.device);
  tps_flags_add_text (described, "only", flags.only);
  tps_flags_add_number (described, "repeats", flags.run.repeats);
}

static gboolean
report (const Lookup *lookup, GPtrArray *described, GError **error)
{
  g_autofree gchar *table = tps_lookup_figures_show (&lookup->figures);
  g_auto (TpsBenchOutput) output;

  fputs (table, stdout);
  tps_bench_output_init (&output, "lookup", described);
  tps_lookup_figures_output (&lookup->figures, &output);
  return flags.run.json == NULL || tps_bench_output_write_json (&output, flags.run.json, error);
}

static void
lookup_clear (Lookup *lookup)
{
  g_clear_pointer (&lookup->remote, tps_lookup_remote_free);
  g_clear_pointer (&lookup->peer, tps_child_free);
  for (guint i = 0; i < lookup->n_locals; i++)
    tps_lookup_local_free (lookup->locals[i]);
  tps_supervisor_free (lookup->supervisor);
  tps_lookup_bags_clear (&lookup->bags);
  tps_lookup_figures_clear (&lookup->figures);
  g_clear_pointer (&lookup->folder, tps_bench_remove_folder);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Lookup, lookup_clear)

static gint
run_benchmark (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *host = tps_bench_describe_host ();
  g_autofree gchar *line = NULL;
  g_autoptr (GPtrArray) described = g_ptr_array_new_with_free_func (g_free);
  g_auto (Lookup) lookup = { .supervisor = tps_supervisor_new () };

  tps_lookup_figures_init (&lookup.figures);
  describe_flags (described);
  g_ptr_array_add (described, NULL);
  line = g_strjoinv (" ", (gchar **) described->pdata);
  g_ptr_array_set_size (described, (gint) described->len - 1);
  printf ("lookup: %s\nhost: %s\n", line, host);
  fflush (stdout);
  if (run (&lookup, &error) && report (&lookup, described, &error))
    return 0;
  fprintf (stderr, "lookup: %s\n", error->message);
  return tps_interrupt_is_set () ? 130 : 1;
}

/* -- flags -- */

static void
make_small (void)
{
  flags.n_rows = MIN (flags.n_rows, 5000);
  flags.n_bags = MIN (flags.n_bags, 64);
  flags.n_batches = MIN (flags.n_batches, 4);
  flags.n_calls = MIN (flags.n_calls, 20);
  flags.seconds = MIN (flags.seconds, 0.05);
}

/* Bags so long that their sums round would not have the checksum of all orders. */
#define MAX_BAG_LENGTH 10000

static gboolean
check_numbers (GError **error)
{
  return tps_flags_check_number ("rows", flags.n_rows, 1, 100000000, error)
         && tps_flags_check_number ("dim", flags.dim, 1, 4096, error)
         && tps_flags_check_number ("bags", flags.n_bags, 1, 1000000, error)
         && tps_flags_check_number ("bag-length", flags.bag_length, 1, MAX_BAG_LENGTH, error)
         && tps_flags_check_number ("batches", flags.n_batches, 1, 1000000, error)
         && tps_flags_check_number ("threads", flags.n_threads, 1, MAX_THREADS, error)
         && tps_flags_check_number ("remote-dim", flags.remote_dim, 1, 4096, error)
         && tps_flags_check_number ("ids", flags.n_ids, 1, 1000000, error)
         && tps_flags_check_number ("calls", flags.n_calls, 1, 1000000, error)
         && tps_flags_check_number ("clients", flags.n_clients, 1, 64, error)
         && (flags.seconds > 0 || tps_flags_refuse ("seconds", "0 or less", "above 0", error));
}

static gboolean
check_flags (GError **error)
{
  static const gchar *const peers[] = { TPS_LOOKUP_PEER, NULL };
  static const gchar *const parts[] = { "local", "remote", NULL };
  static const gchar *const none[] = { NULL };

  if (flags.run.repeats == 0)
    flags.run.repeats = flags.run.smoke ? 1 : 5;
  if (flags.n_threads == 0)
    flags.n_threads = (gint) MIN (2, tps_cores_count ());
  if (flags.run.smoke)
    make_small ();
  if (!tps_table_place_parse (flags.device != NULL ? flags.device : "cpu", &flags.place))
    return tps_flags_refuse ("device", flags.device, "cpu, cuda, cuda:N or cuda:N/host", error);
  return tps_run_flags_finish (&flags.run, none, error) && check_numbers (error)
         && (flags.peer == NULL || tps_flags_check_word ("peer", flags.peer, peers, error))
         && (flags.only == NULL || tps_flags_check_word ("only", flags.only, parts, error));
}

static gboolean
parse_flags (gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context, "Measures how fast rows of embedding tables are found: summed up in bags in this "
               "process, next to a raw gather\nof the same rows, and looked up by RPC.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  g_option_context_add_main_entries (context, entries, NULL);
  tps_run_flags_add (context, &flags.run, NULL);
  return tps_flags_parse (context, argc, argv, &flags.given, error) && check_flags (error);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers stay as they are everywhere */
  if (!parse_flags (argc, argv, &error))
    {
      fprintf (stderr, "lookup: %s\n", error->message);
      return 2;
    }
  if (flags.run.version)
    {
      printf ("lookup (ThriftPS) %s\n", TPS_VERSION);
      return 0;
    }
  if (flags.serve != NULL)
    return tps_lookup_serve (flags.serve);
  tps_interrupt_install ();
  return run_benchmark ();
}
