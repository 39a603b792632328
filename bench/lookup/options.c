/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/options.h"

#include "runtime/machine/machine.h"
#include "runtime/base/error.h"

#define MAX_THREADS 64
#define MIN_RESULT_BYTES 65536 /* bytes from which a result is in shared memory */

/* Sums of longer bags would be rounded, and the checksum would depend on the order. */
#define MAX_BAG_LENGTH 10000

#define FIELD(name) G_STRUCT_OFFSET (TpsLookupOptions, name)

static const TpsFlag flags[] = {
  { "rows", G_OPTION_ARG_INT64, FIELD (n_rows), "rows of the tables (1000000)", "N", 1000000, 1,
    1e8 },
  { "dim", G_OPTION_ARG_INT64, FIELD (dim), "floats of a row for bags (64)", "N", 64, 1, 4096 },
  { "bags", G_OPTION_ARG_INT64, FIELD (n_bags), "bags of a batch (4096)", "N", 4096, 1, 1000000 },
  { "bag-length", G_OPTION_ARG_INT64, FIELD (bag_length), "ids of a bag (20)", "N", 20, 1,
    MAX_BAG_LENGTH },
  { "batches", G_OPTION_ARG_INT64, FIELD (n_batches), "batches of a round (200)", "N", 200, 1,
    1000000 },
  { "steps", G_OPTION_ARG_INT64, FIELD (n_steps),
    "steps of a round by RPC: lookups, or lookups each followed by a push (32)", "N", 32, 1,
    1000000 },
  { "threads", G_OPTION_ARG_INT, FIELD (n_threads),
    "number of threads, measured in addition to one thread (one per core, 2 at most)", "N",
    TPS_FLAGS_NOT_GIVEN, 1, MAX_THREADS },
  { "peer", G_OPTION_ARG_STRING, FIELD (run.peer),
    "pytorch: its EmbeddingBag and sparse optimizers on the same ids; fbgemm: its TBE; both",
    "NAME", .words = "pytorch fbgemm both" },
  { "remote-dim", G_OPTION_ARG_INT64, FIELD (remote_dim),
    "elements of a row that is looked up by RPC (16)", "N", 16, 1, 4096 },
  { "remote-dtype", G_OPTION_ARG_STRING, FIELD (dtype),
    "their type for lookups by RPC: float32, float16 or bfloat16 (float32)", "NAME",
    .text = "float32", .words = "float32 float16 bfloat16" },
  { "ids", G_OPTION_ARG_STRING, FIELD (ids), "distribution of ids: uniform or zipf (uniform)",
    "NAME", .text = "uniform", .words = "uniform zipf" },
  { "exponent", G_OPTION_ARG_DOUBLE, FIELD (id_kind.exponent),
    "exponent of the Zipf distribution (1.05)", "X", 1.05, TPS_FLAGS_ABOVE_0 },
  { "remote-ids", G_OPTION_ARG_INT64, FIELD (n_ids), "rows of a lookup by RPC (2000)", "N", 2000, 1,
    1000000 },
  { "calls", G_OPTION_ARG_INT64, FIELD (n_calls),
    "lookups and small calls of a round, one at a time (2000)", "N", 2000, 1, 1000000 },
  { "clients", G_OPTION_ARG_INT, FIELD (n_clients), "clients under load (4)", "N", 4, 1, 64 },
  { "seconds", G_OPTION_ARG_DOUBLE, FIELD (seconds),
    "length of a round of load, of lookups and of pushes (1)", "S", 1, TPS_FLAGS_ABOVE_0 },
  { "device", G_OPTION_ARG_STRING, FIELD (device),
    "place of the store's and the server's tables: cpu, cuda, cuda:N, or cuda:N/host for host "
    "memory (cpu)",
    "DEVICE", .text = "cpu" },
  { "to-device", G_OPTION_ARG_NONE, FIELD (to_device),
    "step also measures lookups for a caller on the GPU of --device, whose results pass through "
    "the host or stay on the GPU" },
  { "only", G_OPTION_ARG_STRING, FIELD (only),
    "one part: local, step (pooled lookups and pushes of a trainer by RPC), remote (lookups by "
    "RPC), push (pushes by RPC) or small (calls for one row by RPC, and empty calls)",
    "PART", .words = "local step remote push small" },
  { "server-binary", G_OPTION_ARG_FILENAME, FIELD (server_binary),
    "the thriftps_server to measure, of any version (ours); not for the part local", "FILE" },
  { NULL },
};

const TpsCommandLine tps_lookup_command_line = {
  "lookup",
  "Measures access to rows of embedding tables: pooled in bags in this process, next to a raw "
  "gather\nof the same rows, and looked up and pushed by RPC, also as the steps of a trainer.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

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

static gboolean
refuse_to_device (const gchar *problem, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--to-device: %s", problem);
  return FALSE;
}

/* Checks --to-device. Results below MIN_RESULT_BYTES travel inline, never in a device's memory. */
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

gboolean
tps_lookup_options_parse (TpsLookupOptions *o, gint argc, gchar **argv, GError **error)
{
  if (!tps_command_line_parse (&tps_lookup_command_line, o, argc, argv, NULL, error))
    return FALSE;
  tps_flags_default_number (&o->run.repeats, o->run.smoke ? 1 : 5);
  tps_flags_default_number (&o->n_threads, (gint) MIN (2, tps_cores_count ()));
  if (o->run.smoke)
    make_small (o);
  if (!tps_table_place_parse (o->device, &o->place))
    return tps_flags_refuse ("device", o->device, "cpu, cuda, cuda:N or cuda:N/host", error);
  o->id_kind.is_zipf = g_str_equal (o->ids, "zipf");
  o->remote_dtype = g_str_equal (o->dtype, "float16")    ? TPS_DTYPE_FLOAT16
                    : g_str_equal (o->dtype, "bfloat16") ? TPS_DTYPE_BFLOAT16
                                                         : TPS_DTYPE_FLOAT32;
  return check_to_device (o, error);
}

void
tps_lookup_options_clear (TpsLookupOptions *o)
{
  tps_command_line_clear (&tps_lookup_command_line, o);
}
