/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/options.h"

#include "runtime/base/cores.h"
#include "runtime/base/error.h"

#define MAX_THREADS 64
#define MIN_RESULT_BYTES 65536 /* bytes from which a result is in shared memory */

static void
make_small (TpsLookupOptions *o)
{
  o->n_rows = MIN (o->n_rows, 5000);
  o->n_bags = MIN (o->n_bags, o->to_device ? 1024 : 64);
  o->n_batches = MIN (o->n_batches, 4);
  o->n_steps = MIN (o->n_steps, 3);
  o->n_calls = MIN (o->n_calls, 20);
  o->seconds = MIN (o->seconds, 0.05);
}

/* Sums of longer bags would be rounded, and the checksum would depend on the order. */
#define MAX_BAG_LENGTH 10000

static gboolean
check_numbers (const TpsLookupOptions *o, GError **error)
{
  return tps_flags_check_number ("rows", o->n_rows, 1, 100000000, error)
         && tps_flags_check_number ("dim", o->dim, 1, 4096, error)
         && tps_flags_check_number ("bags", o->n_bags, 1, 1000000, error)
         && tps_flags_check_number ("bag-length", o->bag_length, 1, MAX_BAG_LENGTH, error)
         && tps_flags_check_number ("batches", o->n_batches, 1, 1000000, error)
         && tps_flags_check_number ("steps", o->n_steps, 1, 1000000, error)
         && tps_flags_check_number ("threads", o->n_threads, 1, MAX_THREADS, error)
         && tps_flags_check_number ("remote-dim", o->remote_dim, 1, 4096, error)
         && tps_flags_check_number ("remote-ids", o->n_ids, 1, 1000000, error)
         && tps_flags_check_number ("calls", o->n_calls, 1, 1000000, error)
         && tps_flags_check_number ("clients", o->n_clients, 1, 64, error)
         && tps_flags_check_factor ("exponent", o->id_kind.exponent, FALSE, error)
         && (o->seconds > 0 || tps_flags_refuse ("seconds", "0 or less", "above 0", error));
}

static gboolean
refuse_to_device (const gchar *problem, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--to-device: %s", problem);
  return FALSE;
}

/* Checks --to-device. Results below MIN_RESULT_BYTES travel inline, and are therefore never in
 * memory of a device. */
static gboolean
check_to_device (const TpsLookupOptions *o, GError **error)
{
  if (!o->to_device)
    return TRUE;
  if (g_str_equal (o->place.device, "cpu"))
    return refuse_to_device ("expected with --device=cuda or --device=cuda:N", error);
  if (o->only != NULL && !g_str_equal (o->only, "step"))
    return refuse_to_device ("expected without --only, or with --only=step", error);
  if (o->n_bags * o->dim * (gint64) sizeof (gfloat) < MIN_RESULT_BYTES)
    return refuse_to_device ("--bags times --dim is below 16384: results of less than 64 KiB "
                             "travel inline",
                             error);
  return TRUE;
}

static gboolean
check_dtype (TpsLookupOptions *o, GError **error)
{
  static const gchar *const names[] = { "float32", "float16", "bfloat16", NULL };
  static const TpsDType dtypes[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 };

  tps_flags_default_to (&o->dtype, names[0]);
  for (guint i = 0; names[i] != NULL; i++)
    if (g_str_equal (o->dtype, names[i]))
      o->remote_dtype = dtypes[i];
  return tps_flags_check_word ("remote-dtype", o->dtype, names, error);
}

static gboolean
check (TpsLookupOptions *o, GError **error)
{
  static const gchar *const peers[] = { "pytorch", "fbgemm", "both", NULL };
  static const gchar *const parts[] = { "local", "step", "remote", "push", "small", NULL };
  static const gchar *const ids[] = { "uniform", "zipf", NULL };
  static const gchar *const none[] = { NULL };

  if (o->run.repeats == TPS_FLAGS_NOT_GIVEN)
    o->run.repeats = o->run.smoke ? 1 : 5;
  if (o->n_threads == 0)
    o->n_threads = (gint) MIN (2, tps_cores_count ());
  if (o->run.smoke)
    make_small (o);
  tps_flags_default_to (&o->device, "cpu");
  if (!tps_table_place_parse (o->device, &o->place))
    return tps_flags_refuse ("device", o->device, "cpu, cuda, cuda:N or cuda:N/host", error);
  tps_flags_default_to (&o->ids, "uniform");
  o->id_kind.is_zipf = g_str_equal (o->ids, "zipf");
  tps_flags_resolve_path (&o->server_binary);
  return tps_run_flags_finish (&o->run, none, error) && check_numbers (o, error)
         && tps_flags_check_word ("ids", o->ids, ids, error)
         && (o->peer == NULL || tps_flags_check_word ("peer", o->peer, peers, error))
         && (o->only == NULL || tps_flags_check_word ("only", o->only, parts, error))
         && check_dtype (o, error) && check_to_device (o, error);
}

static void
add_entries (GOptionContext *context, TpsLookupOptions *o)
{
  const GOptionEntry entries[] = {
    { "rows", 0, 0, G_OPTION_ARG_INT64, &o->n_rows, "rows of the tables (1000000)", "N" },
    { "dim", 0, 0, G_OPTION_ARG_INT64, &o->dim, "floats of a row for bags (64)", "N" },
    { "bags", 0, 0, G_OPTION_ARG_INT64, &o->n_bags, "bags of a batch (4096)", "N" },
    { "bag-length", 0, 0, G_OPTION_ARG_INT64, &o->bag_length, "ids of a bag (20)", "N" },
    { "batches", 0, 0, G_OPTION_ARG_INT64, &o->n_batches, "batches of a round (200)", "N" },
    { "steps", 0, 0, G_OPTION_ARG_INT64, &o->n_steps,
      "steps of a round by RPC: lookups, or lookups each followed by a push (32)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &o->n_threads,
      "number of threads, measured in addition to one thread (one per core, 2 at most)", "N" },
    { "peer", 0, 0, G_OPTION_ARG_STRING, &o->peer,
      "pytorch: its EmbeddingBag and sparse optimizers on the same ids; fbgemm: its TBE; both",
      "NAME" },
    { "remote-dim", 0, 0, G_OPTION_ARG_INT64, &o->remote_dim,
      "elements of a row that is looked up by RPC (16)", "N" },
    { "remote-dtype", 0, 0, G_OPTION_ARG_STRING, &o->dtype,
      "their type for lookups by RPC: float32, float16 or bfloat16 (float32)", "NAME" },
    { "ids", 0, 0, G_OPTION_ARG_STRING, &o->ids, "distribution of ids: uniform or zipf (uniform)",
      "NAME" },
    { "exponent", 0, 0, G_OPTION_ARG_DOUBLE, &o->id_kind.exponent,
      "exponent of the Zipf distribution (1.05)", "X" },
    { "remote-ids", 0, 0, G_OPTION_ARG_INT64, &o->n_ids, "rows of a lookup by RPC (2000)", "N" },
    { "calls", 0, 0, G_OPTION_ARG_INT64, &o->n_calls,
      "lookups and small calls of a round, one at a time (2000)", "N" },
    { "clients", 0, 0, G_OPTION_ARG_INT, &o->n_clients, "clients under load (4)", "N" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &o->seconds,
      "length of a round of load, of lookups and of pushes (1)", "S" },
    { "device", 0, 0, G_OPTION_ARG_STRING, &o->device,
      "place of the store's and the server's tables: cpu, cuda, cuda:N, or cuda:N/host for host "
      "memory (cpu)",
      "DEVICE" },
    { "to-device", 0, 0, G_OPTION_ARG_NONE, &o->to_device,
      "step also measures lookups for a caller on the GPU of --device, whose results pass through "
      "the host or stay on the GPU",
      NULL },
    { "only", 0, 0, G_OPTION_ARG_STRING, &o->only,
      "one part: local, step (pooled lookups and pushes of a trainer by RPC), remote (lookups by "
      "RPC), push (pushes by RPC) or small (calls for one row by RPC, and empty calls)",
      "PART" },
    { "server-binary", 0, 0, G_OPTION_ARG_FILENAME, &o->server_binary,
      "the thriftps_server to measure, of any version (ours); not for the part local", "FILE" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

gboolean
tps_lookup_options_parse (TpsLookupOptions *o, gint argc, gchar **argv, GError **error)
{
  g_auto (GStrv) given = NULL;
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  *o = (TpsLookupOptions) { .n_rows = 1000000,
                            .dim = 64,
                            .n_bags = 4096,
                            .bag_length = 20,
                            .n_batches = 200,
                            .n_steps = 32,
                            .remote_dim = 16,
                            .id_kind.exponent = 1.05,
                            .n_ids = 2000,
                            .n_calls = 2000,
                            .n_clients = 4,
                            .seconds = 1 };
  g_option_context_set_summary (
      context, "Measures access to rows of embedding tables: pooled in bags in this "
               "process, next to a raw gather\nof the same rows, and looked up and pushed by RPC, "
               "also as the steps of a trainer.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  add_entries (context, o);
  tps_run_flags_add (context, &o->run, NULL);
  return tps_flags_parse (context, argc, argv, &given, error) && check (o, error);
}

void
tps_lookup_options_clear (TpsLookupOptions *o)
{
  g_free (o->peer);
  g_free (o->only);
  g_free (o->server_binary);
  g_free (o->device);
  g_free (o->ids);
  g_free (o->dtype);
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_lookup_options_describe (const TpsLookupOptions *o)
{
  GPtrArray *described = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (described, "rows", (gdouble) o->n_rows);
  tps_flags_add_number (described, "dim", (gdouble) o->dim);
  tps_flags_add_number (described, "bags", (gdouble) o->n_bags);
  tps_flags_add_number (described, "bag-length", (gdouble) o->bag_length);
  tps_flags_add_number (described, "batches", (gdouble) o->n_batches);
  tps_flags_add_number (described, "steps", (gdouble) o->n_steps);
  tps_flags_add_number (described, "threads", o->n_threads);
  tps_flags_add_text (described, "peer", o->peer);
  tps_flags_add_number (described, "remote-dim", (gdouble) o->remote_dim);
  tps_flags_add_text (described, "remote-dtype", o->dtype);
  tps_flags_add_number (described, "remote-ids", (gdouble) o->n_ids);
  tps_flags_add_text (described, "ids", o->ids);
  if (o->id_kind.is_zipf)
    tps_flags_add_number (described, "exponent", o->id_kind.exponent);
  tps_flags_add_number (described, "calls", (gdouble) o->n_calls);
  tps_flags_add_number (described, "clients", o->n_clients);
  tps_flags_add_number (described, "seconds", o->seconds);
  tps_flags_add_text (described, "device", o->device);
  tps_flags_add_text (described, "to-device", o->to_device ? "true" : "false");
  tps_flags_add_text (described, "only", o->only);
  tps_flags_add_number (described, "repeats", o->run.repeats);
  return described;
}
