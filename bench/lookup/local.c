/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "bench/lookup/bags.h"
#include "bench/lookup/gather.h"
#include "bench/lookup/parts.h"
#include "runtime/base/error.h"
#include "runtime/base/parallel.h"
#include "runtime/base/sync.h"
#include "runtime/device/backend.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/tables/table_store.h"

/* Sums of bags in this process: by the backend, by a table store, and by a raw gather. */

/* The systems of this process. */
typedef enum
{
  POOL,   /* embedding_pool of the backend; the threads share the bags */
  STORE,  /* tps_table_store_lookup_bags() */
  GATHER, /* the raw gather, of the same rows */
} System;
#define N_SYSTEMS 3

#define TABLE "bags"
#define ROWS_AT_ONCE 65536
#define SHARES_PER_THREAD 4 /* shares are small, so threads finish at nearly the same time */

struct TpsLookupLocal
{
  const TpsLookupBags *bags;
  guint n_threads;
  TpsWorkerPool *helpers; /* the other threads; NULL = a single thread */
  TpsStream *stream;
  TpsBuffer *table;
  TpsTensor output; /* of the last batch */
  TpsTableStore *store;
  gint64 *offsets;
};

/* One batch, whose shares the threads take in turn. */
typedef struct
{
  TpsLookupLocal *local;
  System system;
  const gint64 *ids;
  gsize n_shares;
} Batch;

/* Returns "pool", "store" or "gather". */
static const gchar *
system_name (System system)
{
  static const gchar *const names[] = { "pool", "store", "gather" };

  return names[system];
}

static gfloat *
floats_of (TpsBuffer *buffer)
{
  return (gfloat *) (gpointer) tps_buffer_get_data (buffer);
}

/* -- tables -- */

/* Sets the values by one step of SGD with the learning rate 1, from 0. */
static gboolean
fill_some (TpsTableStore *store, const TpsLookupShape *shape, gsize first, gsize n, GError **error)
{
  g_autofree gint64 *ids = g_new (gint64, n);
  g_autofree gfloat *values = g_new (gfloat, n * shape->dim);

  for (gsize i = 0; i < n; i++)
    ids[i] = (gint64) (first + i);
  tps_lookup_fill_rows (values, first, n, shape->dim, -1);
  return tps_table_store_apply_rows (store, TABLE, tps_view_ids (ids, n),
                                     tps_view_rows (values, n, shape->dim), error);
}

static gboolean
fill_store (TpsTableStore *store, const TpsLookupShape *shape, const TpsTablePlace *place,
            GError **error)
{
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, TABLE, (gint64) shape->n_rows, (gint32) shape->dim);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  spec.place = *place;
  if (!tps_table_store_create (store, &spec, error))
    return FALSE;
  for (gsize first = 0; first < shape->n_rows; first += ROWS_AT_ONCE)
    if (!fill_some (store, shape, first, MIN (ROWS_AT_ONCE, shape->n_rows - first), error))
      return FALSE;
  return TRUE;
}

static gboolean
fill (TpsLookupLocal *local, const TpsTablePlace *place, GError **error)
{
  const TpsLookupShape *shape = &local->bags->shape;
  TpsTableStoreOptions options = { .workers = local->helpers };
  TpsDevice *device = tps_device_find ("cpu", error);

  if (device == NULL || (local->stream = device->ops->stream_new (device, error)) == NULL)
    return FALSE;
  local->table = tps_buffer_new (shape->n_rows * shape->dim * sizeof (gfloat));
  tps_tensor_init_2d (&local->output, TPS_DTYPE_FLOAT32, (gint64) shape->n_bags,
                      (gint64) shape->dim);
  tps_lookup_fill_rows (floats_of (local->table), 0, shape->n_rows, shape->dim, 1);
  local->offsets = g_new (gint64, shape->n_bags);
  for (gsize bag = 0; bag < shape->n_bags; bag++)
    local->offsets[bag] = (gint64) (bag * shape->bag_length);
  local->store = tps_table_store_new (&options);
  return fill_store (local->store, shape, place, error);
}

/* Creates and fills the tables: the table of the store at `place`, the other on the CPU.
 * RESOURCE_EXHAUSTED; NOT_FOUND (no such device). */
static TpsLookupLocal *
local_new (const TpsLookupBags *bags, guint n_threads, const TpsTablePlace *place, GError **error)
{
  g_autoptr (TpsLookupLocal) local = g_new0 (TpsLookupLocal, 1);

  local->bags = bags;
  local->n_threads = n_threads;
  if (n_threads > 1)
    local->helpers = tps_worker_pool_new ("lookup", n_threads - 1);
  return fill (local, place, error) ? g_steal_pointer (&local) : NULL;
}

void
tps_lookup_local_free (TpsLookupLocal *local)
{
  g_clear_pointer (&local->store, tps_table_store_free);
  g_clear_pointer (&local->helpers, tps_worker_pool_free);
  g_clear_pointer (&local->table, tps_buffer_unref);
  tps_tensor_clear (&local->output);
  if (local->stream != NULL)
    local->stream->device->ops->stream_free (local->stream);
  g_free (local->offsets);
  g_free (local);
}

/* -- batches whose bags the threads share -- */

static void
run_share (gpointer user_data, gsize share)
{
  const Batch *batch = user_data;
  TpsLookupLocal *local = batch->local;
  const TpsLookupShape *shape = &local->bags->shape;
  gsize begin = share * shape->n_bags / batch->n_shares;
  gsize end = (share + 1) * shape->n_bags / batch->n_shares;
  TpsBags bags = {
    .rows = (gint64) shape->n_rows,
    .dim = (gint64) shape->dim,
    .indices = batch->ids + begin * shape->bag_length,
    .n_indices = (end - begin) * shape->bag_length,
    .n_bags = end - begin,
    .pooling = TPS_POOLING_SUM,
  };

  if (batch->system == GATHER)
    tps_lookup_gather (floats_of (local->table), bags.indices, bags.n_indices, shape->dim);
  else
    local->stream->device->ops->embedding_pool (
        local->stream, &bags, TPS_DTYPE_FLOAT32, floats_of (local->table),
        (gfloat *) tps_tensor_data (&local->output) + begin * shape->dim);
}

static void
run_shared (TpsLookupLocal *local, System system, const gint64 *ids)
{
  gsize n_shares = local->n_threads == 1 ? 1 : local->n_threads * SHARES_PER_THREAD;
  Batch batch = { local, system, ids, MIN (n_shares, local->bags->shape.n_bags) };

  tps_parallel_run (local->helpers, batch.n_shares, run_share, &batch);
}

/* -- the store -- */

static gboolean
run_store (TpsLookupLocal *local, const gint64 *ids, GError **error)
{
  const TpsLookupShape *shape = &local->bags->shape;
  TpsBagQuery query = {
    .table = TABLE,
    .indices = tps_view_ids (ids, shape->n_bags * shape->bag_length),
    .offsets = tps_view_ids (local->offsets, shape->n_bags),
    .pooling = TPS_POOLING_SUM,
  };
  TpsTensor output = { 0 };

  if (!tps_table_store_lookup_bags (local->store, NULL, &query, 1, &output, error))
    return FALSE;
  tps_tensor_move (&local->output, &output);
  return TRUE;
}

/* -- runs -- */

static gboolean
check_output (TpsLookupLocal *local, System system, gsize set, GError **error)
{
  const TpsLookupShape *shape = &local->bags->shape;
  const gfloat *output = tps_tensor_data (&local->output);
  gdouble sum = 0;

  if (system == GATHER)
    return TRUE;
  for (gsize i = 0; i < shape->n_bags * shape->dim; i++)
    sum += (gdouble) output[i];
  return tps_lookup_bags_check (local->bags, set, sum, system_name (system), error);
}

/* Runs `n_batches` batches and checks the last one. Returns rows per second; -1 with an error. */
static gdouble
local_run (TpsLookupLocal *local, System system, gsize n_batches, GError **error)
{
  const TpsLookupShape *shape = &local->bags->shape;
  gint64 start_ns = tps_clock_now_ns ();
  gint64 end_ns;

  for (gsize i = 0; i < n_batches; i++)
    {
      const gint64 *ids = tps_lookup_bags_get_ids (local->bags, i % shape->n_sets);

      if (system != STORE)
        run_shared (local, system, ids);
      else if (!run_store (local, ids, error))
        return -1;
    }
  end_ns = tps_clock_now_ns ();
  if (!check_output (local, system, (n_batches - 1) % shape->n_sets, error))
    return -1;
  return (gdouble) (n_batches * shape->n_bags * shape->bag_length)
         / ((gdouble) (end_ns - start_ns) / 1e9);
}

#define USUAL_ROWS_PER_S 40e6 /* for the estimate: rows per second of a thread */

/* Returns rows per second; -1 with an error. */
static gdouble
run_peer (const TpsLookupPeer *peer, guint n_threads, gsize n_batches, GError **error)
{
  const TpsLookupShape *shape = &peer->bags->shape;
  TpsLookupPeerWork work = { .name = "lookup", .n_threads = n_threads, .n_batches = n_batches };
  gdouble checksum;
  gdouble seconds = tps_lookup_peer_run (peer, &work, &checksum, error);

  if (seconds < 0
      || !tps_lookup_bags_check (peer->bags, (n_batches - 1) % shape->n_sets, checksum, peer->name,
                                 error))
    return -1;
  return (gdouble) (n_batches * shape->n_bags * shape->bag_length) / seconds;
}

/* -- bags in this process: a row of systems for each number of threads -- */

/* Chooses the number of batches. The warm-up passes through all ids once, which brings page tables
 * and caches into their final state. */
static gsize
choose_n_batches (const TpsLookup *lookup, gboolean is_warm_up)
{
  return is_warm_up ? lookup->bags.shape.n_sets : (gsize) lookup->options->n_batches;
}

/* Returns the peer of a system; NULL = one of our systems. The peers follow our systems. */
static const TpsLookupPeer *
get_peer (const TpsLookup *lookup, guint system)
{
  return system >= N_SYSTEMS ? &lookup->peers[system - N_SYSTEMS] : NULL;
}

static const gchar *
get_name (const TpsLookup *lookup, guint system)
{
  const TpsLookupPeer *peer = get_peer (lookup, system);

  return peer != NULL ? peer->name : system_name ((System) system);
}

static gboolean
run_local (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  guint number = GPOINTER_TO_UINT (system), i = GPOINTER_TO_UINT (row);
  const TpsLookupPeer *peer = get_peer (lookup, number);
  gsize n_batches = choose_n_batches (lookup, is_warm_up);
  guint n_threads = lookup->n_threads[i];
  g_autofree gchar *title = g_strdup_printf ("%u thread%s", n_threads, n_threads > 1 ? "s" : "");
  gdouble rows_per_s = peer != NULL
                           ? run_peer (peer, n_threads, n_batches, error)
                           : local_run (lookup->locals[i], (System) number, n_batches, error);

  if (rows_per_s >= 0 && !is_warm_up)
    tps_figures_add (lookup->figures, get_name (lookup, number), title, &tps_lookup_rows_per_s,
                     rows_per_s);
  return rows_per_s >= 0;
}

static gdouble
foretell_local (const TpsLookup *lookup, guint n_threads, gboolean is_warm_up)
{
  const TpsLookupShape *shape = &lookup->bags.shape;

  return (gdouble) (choose_n_batches (lookup, is_warm_up) * shape->n_bags * shape->bag_length)
         / (USUAL_ROWS_PER_S * n_threads);
}

static void
add_local_row (TpsLookup *lookup, TpsEngine *engine, guint i)
{
  guint n_threads = lookup->n_threads[i];

  tps_engine_begin_row (engine);
  for (guint system = 0; system < N_SYSTEMS + TPS_LOOKUP_N_PEERS; system++)
    {
      const TpsLookupPeer *peer = get_peer (lookup, system);
      TpsTask task = { .run = run_local,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (system),
                       .row = GUINT_TO_POINTER (i),
                       .warm_up_s = foretell_local (lookup, n_threads, TRUE),
                       .measured_s = foretell_local (lookup, n_threads, FALSE) };

      if (peer == NULL || peer->child != NULL)
        tps_engine_add (engine, &task, "%s, threads: %u", get_name (lookup, system), n_threads);
    }
}

static void
add_limits (TpsLookup *lookup)
{
  TpsFigureLimit gather = { .name = system_name (GATHER),
                            .title = "of gather",
                            .version = "rows added up in the order of the ids" };

  tps_figures_add_limit (lookup->figures, &gather);
}

gboolean
tps_lookup_prepare_local (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  add_limits (lookup);
  for (guint n_threads = 1; n_threads <= (guint) lookup->options->n_threads;
       n_threads += MAX (1, (guint) lookup->options->n_threads - 1))
    {
      guint i = lookup->n_locals;

      lookup->n_threads[i] = n_threads;
      lookup->locals[i] = local_new (&lookup->bags, n_threads, &lookup->options->place, error);
      if (lookup->locals[i] == NULL)
        return FALSE;
      lookup->n_locals++;
      add_local_row (lookup, run->engine, i);
    }
  return TRUE;
}
