/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/plan.h"

#include "bench/transfer/system/pattern.h"
#include "runtime/base/error.h"

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
  static const gsize full[] = { 64,  KIB,     16 * KIB, 64 * KIB, 256 * KIB,
                                MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB };
  const gsize *sizes = options->run.smoke ? smoke : options->full ? full : usual;
  guint n_sizes = options->run.smoke ? G_N_ELEMENTS (smoke)
                  : options->full    ? G_N_ELEMENTS (full)
                                     : G_N_ELEMENTS (usual);

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
  if (!options->full)
    return;
  for (guint n = 2; n <= 64; n *= 4)
    add_row (options, rows, TPS_TRANSFER_PUSH, 256 * KIB, n, 1);
  add_row (options, rows, TPS_TRANSFER_PUSH, KIB, 64, 32);
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

#define LIBTHRIFT "bench/libthrift_transfer"
#define TENSORPIPE "bench/peers/pytorch_transfer.py"

static const TpsTransferSystemSpec systems[] = {
  { .name = "thriftps",
    .version = TPS_VERSION,
    .transport = "tcp",
    .kind = "ours",
    .call_us = 7,
    .gb_per_s = 7 },
  { .name = "raw",
    .version = "blocking socket",
    .transport = "tcp",
    .kind = "raw",
    .call_us = 30,
    .gb_per_s = 3 },
  { .name = "thriftps",
    .version = TPS_VERSION,
    .transport = "unix",
    .kind = "ours",
    .call_us = 7,
    .gb_per_s = 5 },
  { .name = "raw",
    .version = "blocking socket",
    .transport = "unix",
    .kind = "raw",
    .call_us = 30,
    .gb_per_s = 5 },
  { .name = "thriftps",
    .version = TPS_VERSION,
    .transport = "shm",
    .kind = "ours-shared",
    .call_us = 7,
    .gb_per_s = 15 },
  { .name = "raw",
    .version = "copy and wake-up",
    .transport = "shm",
    .kind = "raw-shared",
    .max_bytes_in_flight = TPS_TRANSFER_MAX_BYTES,
    .call_us = 57,
    .gb_per_s = 8 },
  { .name = "memcpy",
    .version = "one thread",
    .transport = "shm",
    .kind = "memcpy",
    .has_no_server = TRUE,
    .max_connections = 1,
    .max_in_flight = 1,
    .call_us = 0,
    .gb_per_s = 9 },
};

static const TpsTransferSystemSpec chunked[] = {
  { .name = "thriftps-chunks",
    .version = TPS_VERSION,
    .transport = "tcp",
    .kind = "ours-chunked",
    .call_us = 20,
    .gb_per_s = 5 },
};

static const TpsTransferSystemSpec encrypted[] = {
  { .name = "thriftps",
    .version = TPS_VERSION,
    .transport = "tls",
    .kind = "ours-tls",
    .takes_certificate = TRUE,
    .call_us = 30,
    .gb_per_s = 1 },
};

static const TpsTransferSystemSpec encrypted_peers[] = {
  { .name = "openssl",
    .version = "s_client and s_server",
    .transport = "tls",
    .kind = "openssl",
    .has_no_server = TRUE,
    .takes_certificate = TRUE,
    .is_one_way = TRUE,
    .has_no_cpu = TRUE,
    .min_bytes = 1 << 20,
    .max_connections = 1,
    .max_in_flight = 1,
    .call_us = 5000,
    .gb_per_s = 1 },
};

static const TpsTransferSystemSpec peers[] = {
  { .name = "libthrift TThreaded",
    .version = "0.17",
    .transport = "tcp",
    .program = LIBTHRIFT,
    .kind = "threaded",
    .max_in_flight = 1,
    .call_us = 65,
    .gb_per_s = 0.9 },
  { .name = "libthrift TNonblocking",
    .version = "0.17",
    .transport = "tcp",
    .program = LIBTHRIFT,
    .kind = "nonblocking",
    .max_in_flight = 1,
    .call_us = 62,
    .gb_per_s = 0.9 },
  { .name = "C GLib",
    .version = "0.17",
    .transport = "tcp",
    .program = "bench/c_glib_transfer",
    .kind = "simple",
    .max_connections = 1,
    .max_in_flight = 1,
    .call_us = 11,
    .gb_per_s = 0.3 },
  { .name = "tensorpipe",
    .version = "python3-torch, TCP alone",
    .transport = "tcp",
    .script = TENSORPIPE,
    .kind = "tcp",
    .max_connections = 1,
    .call_us = 490,
    .gb_per_s = 1.5 },
  { .name = "tensorpipe",
    .version = "python3-torch, its default transports",
    .transport = "shm",
    .script = TENSORPIPE,
    .kind = "default",
    .max_connections = 1,
    .call_us = 310,
    .gb_per_s = 2 },
};

static gboolean
is_asked_for (const TpsTransferOptions *options, const TpsTransferSystemSpec *spec)
{
  return (options->transport == NULL || g_str_equal (options->transport, spec->transport))
         && (options->system == NULL || g_str_equal (options->system, spec->name));
}

static void
add_systems (const TpsTransferOptions *options, GPtrArray *chosen,
             const TpsTransferSystemSpec *specs, guint n_specs)
{
  for (guint i = 0; i < n_specs; i++)
    if (is_asked_for (options, &specs[i]))
      g_ptr_array_add (chosen, (gpointer) (gsize) &specs[i]);
}

GPtrArray *
tps_transfer_plan_systems (const TpsTransferOptions *options, GError **error)
{
  g_autoptr (GPtrArray) chosen = g_ptr_array_new ();

  add_systems (options, chosen, systems, G_N_ELEMENTS (systems));
  if (options->chunks)
    add_systems (options, chosen, chunked, G_N_ELEMENTS (chunked));
  if (options->tls)
    add_systems (options, chosen, encrypted, G_N_ELEMENTS (encrypted));
  if (options->peers)
    add_systems (options, chosen, peers, G_N_ELEMENTS (peers));
  if (options->tls && options->peers)
    add_systems (options, chosen, encrypted_peers, G_N_ELEMENTS (encrypted_peers));
  if (chosen->len > 0)
    return g_steal_pointer (&chosen);
  tps_flags_refuse (
      "system", options->system,
      "thriftps, raw or memcpy, with --chunks thriftps-chunks, or with --peers one of libthrift "
      "TThreaded, libthrift TNonblocking, C GLib, tensorpipe and (--tls) openssl, on a transport "
      "that it has",
      error);
  return NULL;
}
