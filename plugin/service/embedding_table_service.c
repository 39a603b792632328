/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A lookup is decoded on the I/O thread, or on a worker if its arguments are long. The store
 * performs it on the same thread or on a worker, which also encodes the reply. A push is decoded in
 * the same way. The store applies it once and in order, and any thread may send the reply.
 *
 * Arguments are released before a call is answered, so that the memory of their bodies is available
 * to the next request. */

#include "plugin/service/embedding_table_service.h"

#include <stdatomic.h>

#include "plugin/service/methods.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"

/* The largest number of queries or gradients of a call that runs on an I/O thread. */
#define MAX_INLINE_QUERIES 256

/* The largest number of bytes that a call in the short lane reads and writes, in about 10 ms. The
 * limit affects only the order of calls, so it need not be exact: it also suits machines of half or
 * twice the speed. */
#define MAX_SHORT_BYTES ((gsize) 64 << 20)

struct TpsEmbeddingTables
{
  TpsTableStore *store;
  atomic_bool down;
};

TpsEmbeddingTables *
tps_embedding_tables_new (TpsTableStore *store)
{
  TpsEmbeddingTables *tables = g_new0 (TpsEmbeddingTables, 1);

  tables->store = store;
  atomic_init (&tables->down, FALSE);
  return tables;
}

void
tps_embedding_tables_free (TpsEmbeddingTables *tables)
{
  g_free (tables);
}

void
tps_embedding_tables_get_bytes (gpointer data, gint64 *held, gint64 *max)
{
  TpsEmbeddingTables *tables = data;

  *held = (gint64) tps_budget_get_held (tables->store->budget);
  *max = (gint64) tps_budget_get_max (tables->store->budget);
}

/* Returns TRUE before the shut-down. The error has a retry delay, because the server may
 * restart. */
static gboolean
check_up (TpsEmbeddingTables *tables, GError **error)
{
  GError *refusal;

  if (!atomic_load (&tables->down))
    return TRUE;
  refusal = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                 "the embedding tables are shutting down");
  tps_error_set_retry_after_ms (refusal, TPS_RETRY_AFTER_MS);
  g_propagate_error (error, refusal);
  return FALSE;
}

/* ---- create_table, list_tables, drop_table -------------------------------------------------- */

static void
handle_create_table (TpsCall *call, gpointer service)
{
  TpsEmbeddingTables *tables = service;
  g_auto (TpsTableSpec) spec = { 0 };
  g_autoptr (GError) error = NULL;

  if (check_up (tables, &error) && tps_call_read_arguments (call, &spec, &error)
      && tps_call_check_table (call, spec.name, TPS_RIGHT_ADMIN, &error))
    {
      spec.tenant = g_strdup (tps_call_get_tenant_name (call));
      tps_table_store_create (tables->store, &spec, &error);
    }
  tps_call_reply_done (call, error);
}

static void
handle_list_tables (TpsCall *call, gpointer service)
{
  TpsEmbeddingTables *tables = service;
  g_auto (TpsTableSpecs) specs = { 0 };
  g_autoptr (GError) error = NULL;
  guint n_seen = 0;

  if (!check_up (tables, &error)
      || !tps_call_charge (call, tps_table_store_get_list_bytes (tables->store), &error)
      || !tps_table_store_list (tables->store, &specs, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  /* Tables that the caller may not read are left out. */
  for (guint i = 0; i < specs.n_specs; i++)
    if (tps_call_may_see_table (call, specs.specs[i].name, TPS_RIGHT_READ))
      specs.specs[n_seen++] = specs.specs[i];
    else
      tps_table_spec_clear (&specs.specs[i]);
  specs.n_specs = n_seen;
  tps_call_reply_value (call, &specs);
}

static void
handle_drop_table (TpsCall *call, gpointer service)
{
  TpsEmbeddingTables *tables = service;
  g_autofree gchar *table = NULL;
  g_autoptr (GError) error = NULL;

  if (check_up (tables, &error) && tps_call_read_arguments (call, &table, &error)
      && tps_call_check_table (call, table, TPS_RIGHT_ADMIN, &error))
    tps_table_store_drop (tables->store, table, &error);
  tps_call_reply_done (call, error);
}

/* ---- rows of tenants ------------------------------------------------------------------------ */

/* Charges the tenant for the rows of the request as sent. The store checks ids and shapes later. */
/* Checks that the caller has `right` for the table, and charges its tenant for the rows. */
static gboolean
admit_rows (TpsCall *call, const gchar *table, TpsRight right, const TpsTensor *indices,
            GError **error)
{
  return tps_call_check_table (call, table, right, error)
         && tps_call_add_rows (call, (guint64) tps_shape_n_elems (&indices->shape), error);
}

/* As admit_rows(), for an array of `n` elements of `elem_size` bytes, which begin with a
 * TpsBagQuery. */
static gboolean
admit_bags (TpsCall *call, gconstpointer elems, gsize elem_size, guint n, TpsRight right,
            GError **error)
{
  guint64 n_rows = 0;

  for (guint i = 0; i < n; i++)
    {
      const TpsBagQuery *query = (gconstpointer) ((const guint8 *) elems + i * elem_size);

      if (!tps_call_check_table (call, query->table, right, error))
        return FALSE;
      n_rows += (guint64) tps_shape_n_elems (&query->indices.shape);
    }
  return tps_call_add_rows (call, n_rows, error);
}

/* ---- lookups -------------------------------------------------------------------------------- */

static TpsBuffer *
reserve (gpointer call, TpsDevice *device, gsize n_bytes)
{
  return tps_call_reserve (call, device, n_bytes);
}

/* Returns the shared memory for results. Results of less than TPS_SHARING_MIN_BYTES are sent in the
 * reply and do not use it. */
static TpsLookupPlace
get_place (TpsCall *call)
{
  TpsSegmentRegistry *segments = tps_call_get_segments (call, NULL);

  return (TpsLookupPlace) {
    .device = segments != NULL ? tps_segment_registry_get_device (segments) : NULL,
    .min_bytes = TPS_SHARING_MIN_BYTES,
    .reserve = reserve,
    .user_data = call,
  };
}

typedef struct
{
  TpsEmbeddingTables *tables;
  TpsLookupBagsArguments arguments;
} LookupBags;

static void
free_lookup_bags (gpointer data)
{
  LookupBags *lookup = data;

  tps_lookup_bags_arguments_clear (&lookup->arguments);
  g_free (lookup);
}

static void
lookup_bags (TpsCall *call, gpointer user_data)
{
  LookupBags *lookup = user_data;
  guint n_queries = lookup->arguments.n_queries;
  TpsLookupPlace place = get_place (call);
  TpsTableLookup request = { tps_call_get_began_ns (call), &place };
  g_auto (TpsTensorList) outputs = { 0, g_try_new0 (TpsTensor, MAX (n_queries, 1)) };
  g_autoptr (GError) error = NULL;
  gboolean ok = FALSE;

  outputs.n_tensors = outputs.tensors != NULL ? n_queries : 0;
  if (outputs.tensors == NULL)
    g_set_error (&error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "no memory for the results of %u queries", n_queries);
  else
    ok = tps_table_store_lookup_bags (lookup->tables->store, &request, lookup->arguments.queries,
                                      n_queries, outputs.tensors, &error);
  free_lookup_bags (lookup);
  if (ok)
    tps_call_reply_value (call, &outputs);
  else
    tps_call_reply_error (call, error);
}

/* Estimates the bytes that a query reads and writes. The bytes of its tensors count even if the
 * table does not exist, because the tensors are checked. */
static gsize
estimate_query (TpsEmbeddingTables *tables, const TpsBagQuery *query)
{
  gsize n_bytes = tps_shape_n_bytes (&query->indices.shape)
                  + tps_shape_n_bytes (&query->offsets.shape);
  gsize n_moved = tps_table_store_estimate_bags (tables->store, query, 1);

  return MAX (n_bytes, n_moved);
}

/* Returns the lane for a call that moves `n_bytes`. A call that waits for a device, for which the
 * estimate is TPS_TABLE_STORE_WAITS or more, uses no core and may therefore use the short lane. */
static TpsLane
find_lane (gsize n_bytes)
{
  return n_bytes > MAX_SHORT_BYTES && n_bytes < TPS_TABLE_STORE_WAITS ? TPS_LANE_LONG
                                                                      : TPS_LANE_SHORT;
}

/* Returns TRUE if a lookup should run on the I/O thread. If no other connection waits for the
 * thread, the lookup may process as many bytes as the thread could process while a worker wakes up.
 * The store does not share so little work with helpers either. A connection that sends many such
 * lookups loses its turn after 0.2 ms (plugin/net). `n_bytes` is the estimate for the call, of
 * which `n_index_bytes` are indices. When the store shares a lookup of rows with helpers, it counts
 * only the bytes of the rows. Rows and indices are therefore compared with the limit separately.
 * For bags, `n_index_bytes` must be 0: the sum of all their bytes is compared with the limit. */
static gboolean
is_short (TpsCall *call, gsize n_bytes, gsize n_index_bytes)
{
  const TpsTuning *tuning = tps_tuning_get ();

  return n_bytes <= tuning->inline_bytes
         || (MAX (n_bytes - n_index_bytes, n_index_bytes) < tuning->wake_bytes
             && tps_call_is_alone (call));
}

static void
handle_lookup_bags (TpsCall *call, gpointer service)
{
  LookupBags *lookup = g_new0 (LookupBags, 1);
  const TpsLookupBagsArguments *arguments = &lookup->arguments;
  g_autoptr (GError) error = NULL;
  gsize n_bytes = 0;

  lookup->tables = service;
  if (!check_up (lookup->tables, &error)
      || !tps_call_read_arguments (call, &lookup->arguments, &error)
      || !admit_bags (call, lookup->arguments.queries, sizeof (TpsBagQuery),
                      lookup->arguments.n_queries, TPS_RIGHT_READ, &error))
    {
      free_lookup_bags (lookup);
      tps_call_reply_error (call, error);
      return;
    }
  for (guint i = 0; i < arguments->n_queries && n_bytes < TPS_TABLE_STORE_WAITS; i++)
    n_bytes += estimate_query (lookup->tables, &arguments->queries[i]);
  if (is_short (call, n_bytes, 0) && arguments->n_queries <= MAX_INLINE_QUERIES)
    lookup_bags (call, lookup);
  else
    tps_call_run_on_worker (call, find_lane (n_bytes), lookup_bags, lookup, free_lookup_bags);
}

typedef struct
{
  TpsEmbeddingTables *tables;
  gboolean with_lsns;
  TpsLookupRowsArguments arguments;
} LookupRows;

static void
lookup_rows (TpsCall *call, LookupRows *lookup)
{
  const TpsLookupRowsArguments *arguments = &lookup->arguments;
  TpsLookupPlace place = get_place (call);
  TpsTableLookup request = { tps_call_get_began_ns (call), &place };
  g_auto (TpsRowsWithLsns) found = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean ok = tps_table_store_lookup_rows (lookup->tables->store, &request, arguments->table,
                                             tps_tensor_view (&arguments->indices), &found.rows,
                                             lookup->with_lsns ? &found.lsns : NULL, &error);

  tps_lookup_rows_arguments_clear (&lookup->arguments);
  if (!ok)
    tps_call_reply_error (call, error);
  else if (lookup->with_lsns)
    tps_call_reply_value (call, &found);
  else
    tps_call_reply_value (call, &found.rows);
}

static void
free_lookup_rows (gpointer data)
{
  LookupRows *lookup = data;

  tps_lookup_rows_arguments_clear (&lookup->arguments);
  g_free (lookup);
}

static void
lookup_rows_on_worker (TpsCall *call, gpointer user_data)
{
  g_autofree LookupRows *lookup = user_data;

  lookup_rows (call, lookup);
}

/* Estimates the bytes that a call reads and writes. The ids count even if the table does not exist,
 * because they are checked. */
static gsize
estimate_rows (TpsEmbeddingTables *tables, const gchar *table, const TpsTensor *indices)
{
  gsize n_bytes = tps_shape_n_bytes (&indices->shape);
  gsize n_moved = tps_table_store_estimate_rows (tables->store, table,
                                                 tps_shape_n_elems (&indices->shape));

  return MAX (n_bytes, n_moved);
}

static void
begin_lookup_rows (TpsCall *call, TpsEmbeddingTables *tables, gboolean with_lsns)
{
  LookupRows lookup = { .tables = tables, .with_lsns = with_lsns };
  g_autoptr (GError) error = NULL;
  gsize n_bytes;

  if (!check_up (lookup.tables, &error)
      || !tps_call_read_arguments (call, &lookup.arguments, &error)
      || !admit_rows (call, lookup.arguments.table, TPS_RIGHT_READ, &lookup.arguments.indices,
                      &error))
    {
      tps_lookup_rows_arguments_clear (&lookup.arguments);
      tps_call_reply_error (call, error);
      return;
    }
  n_bytes = estimate_rows (lookup.tables, lookup.arguments.table, &lookup.arguments.indices);
  if (is_short (call, n_bytes, tps_shape_n_bytes (&lookup.arguments.indices.shape)))
    lookup_rows (call, &lookup);
  else
    tps_call_run_on_worker (call, find_lane (n_bytes), lookup_rows_on_worker,
                            g_memdup2 (&lookup, sizeof lookup), free_lookup_rows);
}

static void
handle_lookup_rows (TpsCall *call, gpointer service)
{
  begin_lookup_rows (call, service, FALSE);
}

static void
handle_lookup_rows_with_lsns (TpsCall *call, gpointer service)
{
  begin_lookup_rows (call, service, TRUE);
}

/* ---- pushes --------------------------------------------------------------------------------- */

/* A call of apply_row_gradients, assign_rows or apply_bag_gradients. */
typedef struct
{
  TpsCall *call;
  TpsEmbeddingTables *tables;
  const TpsRpc *rpc;
  TpsTablePush push; /* borrows from the arguments */
  union
  {
    TpsApplyRowGradientsArguments rows;
    TpsAssignRowsArguments assignment;
    TpsApplyBagGradientsArguments bags;
  } arguments;
} Push;

static Push *
push_new (TpsCall *call, gpointer service, const TpsRpc *rpc)
{
  Push *push = g_new0 (Push, 1);

  push->call = call;
  push->tables = service;
  push->rpc = rpc;
  return push;
}

/* Also cancels a push that has not begun. The push window does not record its id. */
static void
free_push (gpointer data)
{
  Push *push = data;

  push->rpc->clear_arguments (&push->arguments);
  g_free (push);
}

static void
answer_push (gpointer user_data, const GError *error)
{
  TpsCall *call = ((Push *) user_data)->call;

  free_push (user_data);
  tps_call_reply_done (call, error);
}

static void
run_push (TpsCall *call, gpointer user_data)
{
  Push *push = user_data;

  tps_table_store_push (push->tables->store, &push->push, answer_push, push);
}

/* Runs a small push on this thread, and any other push on a worker. */
static void
begin_push (Push *push, const TpsPushId *id, gsize n_bytes, guint n_gradients)
{
  gboolean is_small = n_bytes <= tps_tuning_get ()->inline_bytes
                      && n_gradients <= MAX_INLINE_QUERIES;

  push->push.client = id->client;
  push->push.sequence = id->sequence;
  push->push.tenant = tps_call_get_tenant_name (push->call);
  push->push.may_wait = tps_call_may_wait (push->call);
  push->push.is_small = is_small;
  push->push.phases = tps_call_get_phases (push->call);
  push->push.began_ns = tps_call_get_began_ns (push->call);
  if (is_small)
    run_push (push->call, push);
  else
    tps_call_run_on_worker (push->call, find_lane (n_bytes), run_push, push, free_push);
}

static gsize
estimate_row_push (TpsEmbeddingTables *tables, const gchar *table, const TpsTensor *indices,
                   const TpsTensor *values)
{
  gsize n_bytes = tps_shape_n_bytes (&values->shape);
  gsize n_moved = estimate_rows (tables, table, indices);

  return MAX (n_bytes, n_moved);
}

static void
handle_apply_row_gradients (TpsCall *call, gpointer service)
{
  Push *push = push_new (call, service, &tps_apply_row_gradients_rpc);
  TpsApplyRowGradientsArguments *arguments = &push->arguments.rows;
  const TpsTensor *indices = &arguments->gradient.indices, *values = &arguments->gradient.values;
  g_autoptr (GError) error = NULL;

  if (!check_up (push->tables, &error) || !tps_call_read_arguments (call, arguments, &error)
      || !admit_rows (call, arguments->table, TPS_RIGHT_PUSH, indices, &error))
    {
      answer_push (push, error);
      return;
    }
  push->push = (TpsTablePush) { .table = arguments->table,
                                .indices = tps_tensor_view (indices),
                                .values = tps_tensor_view (values),
                                .n_rows = arguments->gradient.rows,
                                .has_n_rows = TRUE };
  begin_push (push, &arguments->push,
              estimate_row_push (push->tables, arguments->table, indices, values), 1);
}

static void
handle_assign_rows (TpsCall *call, gpointer service)
{
  Push *push = push_new (call, service, &tps_assign_rows_rpc);
  TpsAssignRowsArguments *arguments = &push->arguments.assignment;
  g_autoptr (GError) error = NULL;

  if (!check_up (push->tables, &error) || !tps_call_read_arguments (call, arguments, &error)
      || !admit_rows (call, arguments->table, TPS_RIGHT_PUSH, &arguments->indices, &error))
    {
      answer_push (push, error);
      return;
    }
  push->push = (TpsTablePush) { .table = arguments->table,
                                .indices = tps_tensor_view (&arguments->indices),
                                .values = tps_tensor_view (&arguments->values),
                                .is_assignment = TRUE,
                                .as_of_lsn = arguments->lsn };
  begin_push (
      push, &arguments->push,
      estimate_row_push (push->tables, arguments->table, &arguments->indices, &arguments->values),
      1);
}

static gsize
estimate_bag_push (TpsEmbeddingTables *tables, const TpsApplyBagGradientsArguments *arguments)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < arguments->n_gradients && n_bytes < TPS_TABLE_STORE_WAITS; i++)
    n_bytes += estimate_query (tables, &arguments->gradients[i].query)
               + tps_shape_n_bytes (&arguments->gradients[i].gradient.shape);
  return n_bytes;
}

static void
handle_apply_bag_gradients (TpsCall *call, gpointer service)
{
  Push *push = push_new (call, service, &tps_apply_bag_gradients_rpc);
  TpsApplyBagGradientsArguments *arguments = &push->arguments.bags;
  g_autoptr (GError) error = NULL;

  if (!check_up (push->tables, &error) || !tps_call_read_arguments (call, arguments, &error)
      || !admit_bags (call, arguments->gradients, sizeof (TpsBagGradient), arguments->n_gradients,
                      TPS_RIGHT_PUSH, &error))
    {
      answer_push (push, error);
      return;
    }
  push->push.gradients = arguments->gradients;
  push->push.n_gradients = arguments->n_gradients;
  begin_push (push, &arguments->push, estimate_bag_push (push->tables, arguments),
              arguments->n_gradients);
}

/* ---- table of methods ----------------------------------------------------------------------- */

/* Pending calls need not be ended: they wait only for running calls, which end by themselves. */
static void
shut_down (gpointer object)
{
  TpsEmbeddingTables *tables = object;

  atomic_store (&tables->down, TRUE);
}

/* In the long lane: create_table fills the rows, drop_table releases the memory, and there may be
 * thousands of tables to list. */
static const TpsMethod methods[] = { TPS_EMBEDDING_TABLE_METHODS (handle_), { 0 } };

TpsService
tps_embedding_table_service (TpsEmbeddingTables *tables)
{
  return (TpsService) { .name = "EmbeddingTable",
                        .methods = methods,
                        .object = tables,
                        .shut_down = shut_down,
                        .borrows_shared = TRUE };
}
