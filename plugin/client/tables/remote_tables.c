/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/remote_tables.h"

#include <string.h>
#include <sys/random.h>

#include "plugin/client/tables/row_split.h"
#include "plugin/client/tables/servers.h"
#include "plugin/client/tables/table_plans.h"
#include "plugin/wire/descriptor.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/sized.h"

/* The happy path of a lookup or push: the call is checked, and its tables are found. A plan
 * (table_plans.h) turns it into one request per server. servers.h sends the requests, all at the
 * same time. When the last reply has arrived, the plan merges the replies on the I/O
 * thread that received it, and `done` is called there.
 *
 * A call that fails before any request is sent ends by tps_servers_defer(), because `done` must not
 * run inside the call.
 *
 * tps_remote_tables_free() first cancels all clients, so that all calls in flight end with ABORTED.
 * It then waits until all calls have ended, because the end of a call on one client may start a
 * request on a different client. Only then does it free the clients.
 *
 * Locks: only `lock`, which must not be held during calls of functions other than those of the hash
 * table. */

struct TpsRemoteTables
{
  TpsTableClient base; /* its ops are set by tps_remote_tables_as_client() */
  TpsServers servers;
  gchar *client;
  gboolean exact;
  atomic_int_fast64_t n_pushes;

  TpsMutex lock;      /* guards the next line */
  GHashTable *tables; /* TpsPlacedTable by name */
};

/* ---- creation and release ------------------------------------------------------------------- */

/* The random numbers come from the kernel. A generator in the process would repeat them after a
 * fork. */
static gchar *
random_name (void)
{
  guint64 words[2];
  gssize n_bytes = getrandom (words, sizeof words, 0);

  g_assert (n_bytes == sizeof words); /* a read of this size is always complete */
  return g_strdup_printf ("client-%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", words[0],
                          words[1]);
}

TpsRemoteTables *
tps_remote_tables_new (const TpsRemoteTablesOptions *given, GError **error)
{
  TpsRemoteTablesOptions copy, *options = &copy;
  TpsClientOptions common = { 0 };
  TpsRemoteTables *tables;

  TPS_SIZED_COPY (copy, given);
  common.max_message_bytes = options->max_message_bytes;
  common.lookup_device = options->lookup_device;
  common.tls = options->tls;
  common.token = options->token;
  if (options->client != NULL && !tps_name_is_valid (options->client, strlen (options->client)))
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "client: \"%.64s\", expected [A-Za-z0-9_.:/-]{1,255}", options->client);
  tables = g_new0 (TpsRemoteTables, 1);
  if (!tps_servers_init (&tables->servers, options->addresses, options->n_addresses, &common,
                         error))
    {
      g_free (tables);
      return NULL;
    }
  tables->client = options->client != NULL ? g_strdup (options->client) : random_name ();
  tables->exact = options->exact;
  atomic_init (&tables->n_pushes, 0);
  tps_mutex_init (&tables->lock);
  tables->tables = g_hash_table_new_full (g_str_hash, g_str_equal, NULL,
                                          (GDestroyNotify) tps_placed_table_unref);
  return tables;
}

void
tps_remote_tables_cancel (TpsRemoteTables *tables)
{
  tps_servers_cancel (&tables->servers);
}

void
tps_remote_tables_free (TpsRemoteTables *tables)
{
  if (tables == NULL)
    return;
  tps_servers_clear (&tables->servers);
  g_hash_table_unref (tables->tables);
  tps_mutex_clear (&tables->lock);
  g_free (tables->client);
  g_free (tables);
}

/* ---- known tables --------------------------------------------------------------------------- */

/* Adds the table to the known tables, and takes ownership of the reference. Replaces a table of the
 * same name. */
static void
add_table (TpsRemoteTables *tables, TpsPlacedTable *table)
{
  TPS_LOCK_SCOPE (&tables->lock);
  g_hash_table_replace (tables->tables, table->spec.name, table); /* the value owns the key */
}

/* Removes the table from the known tables, unless its name belongs to a different table by now. */
/* Must be called with the lock held. */
static TpsPlacedTable *
find_locked (TpsRemoteTables *tables, const gchar *name, GError **error)
{
  TpsPlacedTable *table = name != NULL ? g_hash_table_lookup (tables->tables, name) : NULL;

  if (table != NULL)
    return tps_placed_table_ref (table);
  return tps_fail_null (error, TPS_ERROR_NOT_FOUND,
                        "table %s is not known here: it was neither created nor discovered",
                        name != NULL ? name : "(none)");
}

/* Returns a reference to the table with this name. Errors: NOT_FOUND. */
static TpsPlacedTable *
find_table (TpsRemoteTables *tables, const gchar *name, GError **error)
{
  TPS_LOCK_SCOPE (&tables->lock);
  return find_locked (tables, name, error);
}

/* ---- requests that wait --------------------------------------------------------------------- */

/* The minimum time in which a failed creation may drop its parts, even after its deadline. */
#define ROLLBACK_NS ((gint64) 2 * 1000000000)

/* Requests to some servers and their outcomes. */
typedef struct
{
  TpsServers *servers;
  guint n_requests;
  TpsServerRequest *requests;
  GError **errors;
} Batch;

static Batch *
batch_new (TpsRemoteTables *tables)
{
  Batch *batch = g_new0 (Batch, 1);

  batch->servers = &tables->servers;
  batch->requests = g_new0 (TpsServerRequest, tables->servers.n_servers);
  batch->errors = g_new0 (GError *, tables->servers.n_servers);
  return batch;
}

static void
batch_free (Batch *batch)
{
  for (guint i = 0; i < batch->n_requests; i++)
    g_clear_error (&batch->errors[i]);
  g_free (batch->errors);
  g_free (batch->requests);
  g_free (batch);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Batch, batch_free)

static TpsServerRequest *
batch_add (Batch *batch, guint server)
{
  TpsServerRequest *request = &batch->requests[batch->n_requests++];

  request->server = server;
  return request;
}

static gboolean
batch_run (Batch *batch, const TpsRpc *rpc, gint64 deadline_ns)
{
  return tps_servers_call_sync (batch->servers, rpc, batch->requests, batch->n_requests,
                                deadline_ns, batch->errors);
}

static gboolean
batch_propagate (const Batch *batch, GError **error)
{
  GError *first = tps_servers_dup_error (batch->servers, batch->requests, batch->n_requests,
                                         batch->errors, FALSE);

  if (first == NULL)
    return TRUE;
  g_propagate_error (error, first);
  return FALSE;
}

/* ---- discovery ------------------------------------------------------------------------------ */

typedef struct
{
  guint n_servers;
  TpsTableSpecs *of; /* [n_servers] */
} Lists;

static void
lists_free (Lists *lists)
{
  for (guint server = 0; server < lists->n_servers; server++)
    tps_table_specs_clear (&lists->of[server]);
  g_free (lists->of);
  g_free (lists);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Lists, lists_free)

/* Takes the tables of a server. Absent fields get their defaults, as in a creation. */
static gboolean
take_list (gpointer result, gpointer user_data, GError **error)
{
  TpsTableSpecs *list = user_data;
  gboolean ok = TRUE;

  *list = *(TpsTableSpecs *) result;
  *(TpsTableSpecs *) result = (TpsTableSpecs) { 0 };
  for (guint i = 0; ok && i < list->n_specs; i++)
    ok = tps_table_spec_resolve (&list->specs[i], error);
  return ok;
}

static Lists *
ask_lists (TpsRemoteTables *tables, gint64 deadline_ns, GError **error)
{
  guint n_servers = tables->servers.n_servers;
  g_autoptr (Lists) lists = g_new0 (Lists, 1);
  g_autoptr (Batch) batch = batch_new (tables);

  lists->n_servers = n_servers;
  lists->of = g_new0 (TpsTableSpecs, n_servers);
  for (guint server = 0; server < n_servers; server++)
    {
      TpsServerRequest *request = batch_add (batch, server);

      request->take = take_list;
      request->user_data = &lists->of[server];
    }
  if (batch_run (batch, &tps_list_tables_rpc, deadline_ns))
    return g_steal_pointer (&lists);
  batch_propagate (batch, error);
  return NULL;
}

static GPtrArray *
ask_tables (TpsRemoteTables *tables, gint64 deadline_ns, GError **error)
{
  g_autoptr (Lists) lists = ask_lists (tables, deadline_ns, error);

  if (lists == NULL)
    return NULL;
  return tps_placed_tables_assemble (lists->of, (const gchar *const *) tables->servers.addresses,
                                     tables->servers.n_servers, error);
}

gboolean
tps_remote_tables_discover (TpsRemoteTables *tables, gint64 deadline_ns, GError **error)
{
  g_autoptr (GPtrArray) found = ask_tables (tables, deadline_ns, error);

  if (found == NULL)
    return FALSE;
  for (guint i = 0; i < found->len; i++)
    add_table (tables, tps_placed_table_ref (found->pdata[i]));
  return TRUE;
}

GPtrArray *
tps_remote_tables_list (TpsRemoteTables *tables, gint64 deadline_ns, GError **error)
{
  g_autoptr (GPtrArray) found = ask_tables (tables, deadline_ns, error);
  GPtrArray *list;

  if (found == NULL)
    return NULL;
  list = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_remote_table_free);
  for (guint i = 0; i < found->len; i++)
    {
      const TpsPlacedTable *table = found->pdata[i];
      TpsRemoteTable *element = tps_remote_table_new (&table->spec);

      element->shard_kind = table->kind;
      element->server = table->kind == TPS_SHARD_WHOLE ? table->servers[0] : 0;
      g_ptr_array_add (list, element);
    }
  return list;
}

/* ---- creation ------------------------------------------------------------------------------- */

static TpsPlacedTable *
place_table (const TpsRemoteTables *tables, const TpsTableSpec *spec,
             const TpsTablePlacement *placement, GError **error)
{
  guint n_servers = tables->servers.n_servers;
  g_auto (TpsTableSpec) whole = { 0 };

  tps_table_spec_copy (&whole, spec);
  tps_shard_init_whole (&whole.shard, spec->shard.rows);
  if (!tps_table_spec_resolve (&whole, error))
    return NULL;
  switch (placement->kind)
    {
    case TPS_SHARD_WHOLE:
      if (placement->server < n_servers)
        return tps_placed_table_new_whole (&whole, placement->server);
      return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                            "placement.server: %u is not in [0, %u)", placement->server, n_servers);
    case TPS_SHARD_RANGE:
    case TPS_SHARD_HASH:
      return tps_placed_table_new_dealt (&whole, placement->kind, n_servers);
    }
  return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT, "placement.kind: unknown kind %d",
                        (gint) placement->kind);
}

static const TpsTableSpec *
find_spec (const TpsTableSpecs *list, const gchar *name)
{
  for (guint i = 0; i < list->n_specs; i++)
    if (strcmp (list->specs[i].name, name) == 0)
      return &list->specs[i];
  return NULL;
}

static gint
find_shard (const TpsPlacedTable *table, guint server)
{
  for (guint shard = 0; shard < table->n_shards; shard++)
    if (table->servers[shard] == server)
      return (gint) shard;
  return -1;
}

/* Compares the server's table of this name with the part that the server should have. */
static gboolean
check_part_there (const TpsRemoteTables *tables, const TpsPlacedTable *table, guint server,
                  const TpsTableSpec *there, GError **error)
{
  gint shard = find_shard (table, server);
  g_auto (TpsTableSpec) part = { 0 };
  g_autofree gchar *conflict = NULL;

  if (shard >= 0)
    {
      tps_placed_table_init_part (table, (guint) shard, &part);
      conflict = tps_table_spec_dup_difference (there, &part);
      if (conflict == NULL)
        return TRUE;
    }
  return tps_fail (error, TPS_ERROR_ALREADY_EXISTS, "server %u (%s): table %s exists already: %s",
                   server, tables->servers.addresses[server], table->spec.name,
                   conflict != NULL ? conflict : "this server must not have a part of it");
}

/* Sets is_missing[shard] to TRUE for each shard that does not exist yet. is_missing [n_shards] must
 * be FALSE on entry. If a server has a different table of this name, fails with ALREADY_EXISTS. */
static gboolean
find_missing (TpsRemoteTables *tables, const TpsPlacedTable *table, gint64 deadline_ns,
              gboolean *is_missing, GError **error)
{
  g_autoptr (Lists) lists = ask_lists (tables, deadline_ns, error);

  if (lists == NULL)
    return FALSE;
  for (guint server = 0; server < tables->servers.n_servers; server++)
    {
      const TpsTableSpec *there = find_spec (&lists->of[server], table->spec.name);
      gint shard = find_shard (table, server);

      if (there != NULL && !check_part_there (tables, table, server, there, error))
        return FALSE;
      if (shard >= 0)
        is_missing[shard] = there == NULL;
    }
  return TRUE;
}

/* Drops all parts that may have been created. After CONNECTION_LOST or DEADLINE_EXCEEDED, the
 * server may have created its part; after any other error, it has not. Ignores failures. */
static void
roll_back (TpsRemoteTables *tables, const TpsPlacedTable *table, const Batch *creates,
           gint64 deadline_ns)
{
  g_autoptr (Batch) drops = batch_new (tables);

  for (guint i = 0; i < creates->n_requests; i++)
    {
      const GError *error = creates->errors[i];
      TpsServerRequest *request;

      if (error != NULL && !g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST)
          && !g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        continue;
      request = batch_add (drops, creates->requests[i].server);
      request->arguments = &table->spec.name;
    }
  batch_run (drops, &tps_drop_table_rpc, MAX (deadline_ns, tps_clock_now_ns () + ROLLBACK_NS));
}

static gboolean
create_missing (TpsRemoteTables *tables, const TpsPlacedTable *table, const gboolean *is_missing,
                gint64 deadline_ns, GError **error)
{
  g_autofree TpsTableSpec *parts = g_new0 (TpsTableSpec, table->n_shards);
  g_autoptr (Batch) creates = batch_new (tables);
  gboolean ok;

  for (guint shard = 0; shard < table->n_shards; shard++)
    {
      TpsServerRequest *request;

      if (!is_missing[shard])
        continue;
      tps_placed_table_init_part (table, shard, &parts[shard]);
      request = batch_add (creates, table->servers[shard]);
      request->arguments = &parts[shard];
    }
  ok = batch_run (creates, &tps_create_table_rpc, deadline_ns);
  if (!ok)
    roll_back (tables, table, creates, deadline_ns);
  batch_propagate (creates, error);
  for (guint shard = 0; shard < table->n_shards; shard++)
    tps_table_spec_clear (&parts[shard]);
  return ok;
}

gboolean
tps_remote_tables_create_spec (TpsRemoteTables *tables, const TpsTableSpec *spec,
                               const TpsTablePlacement *placement, gint64 deadline_ns,
                               GError **error)
{
  g_autoptr (TpsPlacedTable) table = place_table (tables, spec, placement, error);
  g_autofree gboolean *is_missing = NULL;

  if (table == NULL)
    return FALSE;
  is_missing = g_new0 (gboolean, table->n_shards);
  if (!find_missing (tables, table, deadline_ns, is_missing, error)
      || !create_missing (tables, table, is_missing, deadline_ns, error))
    return FALSE;
  add_table (tables, g_steal_pointer (&table));
  return TRUE;
}

gboolean
tps_remote_tables_create (TpsRemoteTables *tables, const TpsRemoteTable *given, gint64 deadline_ns,
                          GError **error)
{
  TpsRemoteTable table;
  TpsTablePlacement placement;
  g_auto (TpsTableSpec) spec = { 0 };

  TPS_SIZED_COPY (table, given);
  placement = (TpsTablePlacement) { table.shard_kind, table.server };
  return tps_table_spec_init_from (&spec, &table, error)
         && tps_remote_tables_create_spec (tables, &spec, &placement, deadline_ns, error);
}

/* ---- dropping ------------------------------------------------------------------------------- */

gboolean
tps_remote_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 deadline_ns,
                        GError **error)
{
  g_autoptr (TpsPlacedTable) table = find_table (tables, name, error);
  g_autoptr (Batch) batch = batch_new (tables);

  if (table == NULL)
    return FALSE;
  for (guint shard = 0; shard < table->n_shards; shard++)
    {
      TpsServerRequest *request = batch_add (batch, table->servers[shard]);

      request->arguments = &table->spec.name;
    }
  batch_run (batch, &tps_drop_table_rpc, deadline_ns);
  /* A missing part counts as dropped. An earlier attempt whose reply was lost, or a different
   * client, may have dropped it. */
  for (guint i = 0; i < batch->n_requests; i++)
    if (g_error_matches (batch->errors[i], TPS_ERROR, TPS_ERROR_NOT_FOUND))
      g_clear_error (&batch->errors[i]);
  if (!batch_propagate (batch, error))
    return FALSE;
  TPS_LOCK_SCOPE (&tables->lock);
  if (g_hash_table_lookup (tables->tables, table->spec.name) == table)
    g_hash_table_remove (tables->tables, table->spec.name);
  return TRUE;
}

/* ---- checks of calls ------------------------------------------------------------------------ */

static const TpsBagQuery *
nth_query (const TpsBagQuery *queries, guint i, gsize stride)
{
  return (const TpsBagQuery *) (gconstpointer) ((const guint8 *) queries + i * stride);
}

static gboolean
check_query (const TpsPlacedTable *table, const TpsBagQuery *query, const gchar *list, guint i,
             GError **error)
{
  g_autofree gchar *query_name = g_strdup_printf ("%s[%u]", list, i);
  g_autofree gchar *indices = g_strdup_printf ("%s.indices", query_name);

  return tps_bag_query_check (query, query_name, error)
         && tps_placed_table_check_rows (table, query->indices.data,
                                         (gsize) query->indices.shape.dims[0], indices, error);
}

/* Finds the tables of all queries, with the lock taken once, and checks the queries and their
 * rows. `stride` is the distance between queries in bytes; `list` is the name of the list in
 * messages. Returns an array of references, which the caller owns. Errors: NOT_FOUND;
 * INVALID_ARGUMENT, naming "LIST[2].indices[17]". */
static GPtrArray *
find_all (TpsRemoteTables *tables, const TpsBagQuery *queries, guint n_queries, gsize stride,
          const gchar *list, GError **error)
{
  g_autoptr (GPtrArray) found = NULL;

  found = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_placed_table_unref);
  tps_mutex_lock (&tables->lock);
  for (guint i = 0; found->len == i && i < n_queries; i++)
    {
      TpsPlacedTable *table = find_locked (tables, nth_query (queries, i, stride)->table, error);

      if (table != NULL)
        g_ptr_array_add (found, table);
      else
        g_prefix_error (error, "%s[%u]: ", list, i);
    }
  tps_mutex_unlock (&tables->lock);
  if (found->len < n_queries)
    return NULL;
  for (guint i = 0; i < n_queries; i++)
    if (!check_query (found->pdata[i], nth_query (queries, i, stride), list, i, error))
      return NULL;
  return g_steal_pointer (&found);
}

static gboolean
refuse_shape (TpsTensorView view, const gchar *name, const gchar *expected, GError **error)
{
  g_autofree gchar *got = view.shape.dtype == 0 ? g_strdup ("missing")
                                                : tps_shape_to_string (&view.shape);

  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %s, expected %s", name, got, expected);
}

/* Returns TRUE if `indices` are INT64 [n] and lie in the table. Errors: INVALID_ARGUMENT. */
static gboolean
check_indices (const TpsPlacedTable *table, TpsTensorView indices, GError **error)
{
  if (indices.shape.dtype == TPS_DTYPE_INT64 && indices.shape.n_dims == 1
      && (indices.data != NULL || indices.shape.dims[0] == 0))
    return tps_placed_table_check_rows (table, indices.data, (gsize) indices.shape.dims[0],
                                        "indices", error);
  return refuse_shape (indices, "indices", "a vector of INT64", error);
}

/* ---- calls that fail before any request ----------------------------------------------------- */

typedef struct
{
  TpsTablesLookedUp looked_up;
  TpsTablesApplied applied;
  gpointer user_data;
  GError *error;
} FailedCall;

static void
report (gpointer user_data, const GError *cancelled)
{
  FailedCall *call = user_data;
  const GError *error = cancelled != NULL ? cancelled : call->error;

  if (call->looked_up != NULL)
    call->looked_up (call->user_data, NULL, error);
  else
    call->applied (call->user_data, error);
  g_error_free (call->error);
  g_free (call);
}

/* Ends a call that failed before any request was sent: calls `looked_up` or `applied`, the other of
 * which is NULL, with the error later, on an I/O thread. Takes ownership of the error. */
static void
fail (TpsRemoteTables *tables, TpsTablesLookedUp looked_up, TpsTablesApplied applied,
      gpointer user_data, GError *error)
{
  FailedCall call = { looked_up, applied, user_data, error };

  tps_servers_defer (&tables->servers, report, g_memdup2 (&call, sizeof call));
}

static void
give_outputs (TpsTablesLookedUp done, gpointer user_data, TpsTensor *outputs, guint n_outputs)
{
  done (user_data, outputs, NULL);
  for (guint i = 0; i < n_outputs; i++)
    tps_tensor_clear (&outputs[i]);
}

/* ---- requests of a plan --------------------------------------------------------------------- */

static gboolean
take_answer (gpointer result, gpointer user_data, GError **error)
{
  const TpsTensorList *list = result;
  TpsLookupRequest *request = user_data;
  TpsLookupPlan *plan = request->plan;

  return tps_lookup_plan_take_answer (plan, (guint) (request - plan->requests), list->tensors,
                                      list->n_tensors, error);
}

/* Sends the requests of `plan`, which is borrowed until `answered`: on success, all replies are in
 * the plan then. */
static void
send_plan (TpsLookupPlan *plan, TpsServers *servers, gint64 deadline_ns,
           TpsServersAnswered answered, gpointer user_data)
{
  g_autofree TpsServerRequest *requests = g_new0 (TpsServerRequest, plan->n_servers);
  guint n_requests = 0;

  for (guint server = 0; server < plan->n_servers; server++)
    {
      TpsLookupRequest *request = &plan->requests[server];

      if (request->queries->len == 0)
        continue;
      request->arguments.n_queries = request->queries->len;
      request->arguments.queries = &g_array_index (request->queries, TpsBagQuery, 0);
      requests[n_requests++] = (TpsServerRequest) { .server = server,
                                                    .arguments = &request->arguments,
                                                    .take = take_answer,
                                                    .user_data = request };
    }
  tps_servers_call (servers, &tps_lookup_bags_rpc, requests, n_requests, deadline_ns, answered,
                    user_data);
}

/* ---- lookups of bags ------------------------------------------------------------------------ */

typedef struct
{
  TpsLookupPlan *plan;
  TpsTablesLookedUp done;
  gpointer user_data;
} BagLookup;

static void
on_bags_answered (gpointer user_data, const GError *error)
{
  BagLookup *lookup = user_data;
  guint n_queries = lookup->plan->n_queries;
  g_autofree TpsTensor *outputs = g_new0 (TpsTensor, 2 * n_queries + 1);

  if (error == NULL)
    {
      tps_lookup_plan_finish (lookup->plan, outputs, outputs + n_queries);
      give_outputs (lookup->done, lookup->user_data, outputs, 2 * n_queries);
    }
  else
    lookup->done (lookup->user_data, NULL, error);
  tps_lookup_plan_free (lookup->plan);
  g_free (lookup);
}

void
tps_remote_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries, guint n_queries,
                               gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (GPtrArray)
      found = find_all (tables, queries, n_queries, sizeof queries[0], "queries", &error);
  BagLookup *lookup;

  if (found == NULL)
    {
      fail (tables, done, NULL, user_data, error);
      return;
    }
  lookup = g_new (BagLookup, 1);
  lookup->plan = tps_lookup_plan_new ((TpsPlacedTable *const *) found->pdata, queries, n_queries,
                                      tables->exact ? TPS_SPLIT_EXACT : TPS_SPLIT_POOLED,
                                      tables->servers.n_servers);
  lookup->done = done;
  lookup->user_data = user_data;
  send_plan (lookup->plan, &tables->servers, deadline_ns, on_bags_answered, lookup);
}

/* ---- lookups of rows ------------------------------------------------------------------------ */

typedef struct RowLookup RowLookup;

typedef struct
{
  RowLookup *lookup;
  guint part;
  TpsLookupRowsArguments arguments; /* the name is borrowed */
} RowsOfPart;

struct RowLookup
{
  TpsRowSplit split;
  RowsOfPart *parts;
  TpsTablesLookedUp done;
  gpointer user_data;
};

static gboolean
take_rows (gpointer rows, gpointer user_data, GError **error)
{
  RowsOfPart *part = user_data;

  return tps_row_split_take_answer (&part->lookup->split, part->part, rows, error);
}

static void
on_rows_answered (gpointer user_data, const GError *error)
{
  RowLookup *lookup = user_data;
  g_auto (TpsTensor) rows = { 0 };

  if (error == NULL)
    {
      tps_row_split_merge (&lookup->split, &rows);
      give_outputs (lookup->done, lookup->user_data, &rows, 1);
    }
  else
    lookup->done (lookup->user_data, NULL, error);
  for (guint i = 0; i < lookup->split.n_parts; i++)
    tps_tensor_clear (&lookup->parts[i].arguments.indices);
  tps_row_split_clear (&lookup->split);
  g_free (lookup->parts);
  g_free (lookup);
}

void
tps_remote_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices,
                               gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (TpsPlacedTable) table = find_table (tables, name, &error);
  g_autofree TpsServerRequest *requests = NULL;
  RowLookup *lookup;

  if (table == NULL || !check_indices (table, indices, &error))
    {
      fail (tables, done, NULL, user_data, error);
      return;
    }
  lookup = g_new0 (RowLookup, 1);
  lookup->done = done;
  lookup->user_data = user_data;
  tps_row_split_init (&lookup->split, table, indices, FALSE);
  lookup->parts = g_new0 (RowsOfPart, lookup->split.n_parts);
  requests = g_new (TpsServerRequest, lookup->split.n_parts);
  for (guint i = 0; i < lookup->split.n_parts; i++)
    {
      RowsOfPart *part = &lookup->parts[i];

      *part = (RowsOfPart) { lookup, i, { .table = table->spec.name } };
      tps_tensor_init_borrowed (&part->arguments.indices, lookup->split.parts[i].indices);
      requests[i] = (TpsServerRequest) { .server = table->servers[lookup->split.parts[i].shard],
                                         .arguments = &part->arguments,
                                         .take = take_rows,
                                         .user_data = part };
    }
  tps_servers_call (&tables->servers, &tps_lookup_rows_rpc, requests, lookup->split.n_parts,
                    deadline_ns, on_rows_answered, lookup);
}

/* Each request of a push has its own id, because servers do not share their records of ids. */
static TpsPushId
next_push (TpsRemoteTables *tables)
{
  return (TpsPushId) {
    .client = tables->client,
    .sequence = (gint64) atomic_fetch_add_explicit (&tables->n_pushes, 1, memory_order_relaxed) + 1,
  };
}

/* ---- pushes of bags ------------------------------------------------------------------------- */

typedef struct
{
  TpsRemoteTables *tables;
  TpsPushPlan *plan;
  gint64 deadline_ns;
  TpsTablesApplied done;
  gpointer user_data;
} BagPush;

static void
on_bags_applied (gpointer user_data, const GError *error)
{
  BagPush *push = user_data;

  push->done (push->user_data, error);
  tps_push_plan_free (push->plan);
  g_free (push);
}

static void
send_bag_push (BagPush *push)
{
  TpsServers *servers = &push->tables->servers;
  g_autofree TpsServerRequest *requests = g_new0 (TpsServerRequest, servers->n_servers);
  guint n_requests = 0;

  tps_push_plan_finish (push->plan);
  for (guint server = 0; server < servers->n_servers; server++)
    {
      TpsPushPart *part = &push->plan->requests[server];

      if (part->gradients->len == 0)
        continue;
      part->arguments.n_gradients = part->gradients->len;
      part->arguments.gradients = &g_array_index (part->gradients, TpsBagGradient, 0);
      part->arguments.push = next_push (push->tables);
      requests[n_requests++] = (TpsServerRequest) { .server = server,
                                                    .arguments = &part->arguments };
    }
  tps_servers_call (servers, &tps_apply_bag_gradients_rpc, requests, n_requests, push->deadline_ns,
                    on_bags_applied, push);
}

static void
on_maxima_found (gpointer user_data, const GError *error)
{
  BagPush *push = user_data;

  if (error == NULL)
    send_bag_push (push);
  else
    on_bags_applied (push, error);
}

/* Checks the maxima that the caller passes, if any. Every id other than -1 must be a row. */
static gboolean
check_maxima (const TpsBagGradient *gradient, guint i, const TpsPlacedTable *table, GError **error)
{
  gboolean is_max = gradient->query.pooling == TPS_POOLING_MAX;
  gint64 rows = table->spec.shard.rows;
  gint64 n_cells = tps_shape_n_elems (&gradient->gradient.shape);
  TpsShape expected = gradient->gradient.shape;
  const gint64 *ids = gradient->maxima.data;
  g_autofree gchar *name = g_strdup_printf ("gradients[%u].maxima", i);
  g_autofree gchar *wanted = NULL;

  if (gradient->maxima.shape.dtype == 0)
    return TRUE;
  expected.dtype = TPS_DTYPE_INT64;
  wanted = is_max ? tps_shape_to_string (&expected) : g_strdup ("none: the pooling is not MAX");
  if (!is_max || !tps_shape_equal (&gradient->maxima.shape, &expected)
      || (ids == NULL && n_cells > 0))
    return refuse_shape (gradient->maxima, name, wanted, error);
  for (gint64 cell = 0; cell < n_cells; cell++)
    if (ids[cell] < -1 || ids[cell] >= rows)
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                       "%s[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT
                       " is not in [-1, %" G_GINT64_FORMAT ") of table %s",
                       name, cell, ids[cell], rows, table->spec.name);
  return TRUE;
}

static gboolean
check_gradients (const TpsBagGradient *gradients, guint n_gradients, const GPtrArray *found,
                 GError **error)
{
  for (guint i = 0; i < n_gradients; i++)
    {
      const TpsPlacedTable *table = found->pdata[i];
      gint64 n_bags = gradients[i].query.offsets.shape.dims[0];
      TpsShape expected = { .dtype = TPS_DTYPE_FLOAT32,
                            .n_dims = 2,
                            .dims = { n_bags, table->spec.dim } };
      const TpsTensorView *gradient = &gradients[i].gradient;
      g_autofree gchar *name = NULL, *wanted = NULL;

      if (tps_shape_equal (&gradient->shape, &expected) && (gradient->data != NULL || n_bags == 0))
        {
          if (!check_maxima (&gradients[i], i, table, error))
            return FALSE;
          continue;
        }
      name = g_strdup_printf ("gradients[%u].gradient", i);
      wanted = tps_shape_to_string (&expected);
      return refuse_shape (*gradient, name, wanted, error);
    }
  return TRUE;
}

void
tps_remote_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                              guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                              gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) found = NULL;
  BagPush *push;

  found = find_all (tables, n_gradients > 0 ? &gradients[0].query : NULL, n_gradients,
                    sizeof gradients[0], "gradients", &error);
  if (found == NULL || !check_gradients (gradients, n_gradients, found, &error))
    {
      fail (tables, NULL, done, user_data, error);
      return;
    }
  push = g_new0 (BagPush, 1);
  push->tables = tables;
  push->deadline_ns = deadline_ns;
  push->done = done;
  push->user_data = user_data;
  push->plan = tps_push_plan_new ((TpsPlacedTable *const *) found->pdata, gradients, n_gradients,
                                  tables->servers.n_servers);
  if (push->plan->rows != NULL)
    send_plan (push->plan->rows, &tables->servers, deadline_ns, on_maxima_found, push);
  else
    send_bag_push (push);
}

/* ---- pushes of rows ------------------------------------------------------------------------- */

/* Gradients of rows, or new values; either `gradients` or `assignments` is NULL. */
typedef struct
{
  TpsRowSplit split;
  TpsApplyRowGradientsArguments *gradients; /* names are borrowed, tensors owned */
  TpsAssignRowsArguments *assignments;      /* the same */
  TpsTablesApplied done;
  gpointer user_data;
} RowPush;

static void
on_rows_applied (gpointer user_data, const GError *error)
{
  RowPush *push = user_data;

  push->done (push->user_data, error);
  for (guint i = 0; i < push->split.n_parts; i++)
    if (push->assignments == NULL)
      tps_gradient_clear (&push->gradients[i].gradient);
    else
      {
        tps_tensor_clear (&push->assignments[i].indices);
        tps_tensor_clear (&push->assignments[i].values);
      }
  tps_row_split_clear (&push->split);
  g_free (push->gradients);
  g_free (push->assignments);
  g_free (push);
}

static gconstpointer
fill_gradient (TpsRemoteTables *tables, RowPush *push, guint i, TpsTensorView values)
{
  TpsApplyRowGradientsArguments *arguments = &push->gradients[i];
  TpsGradient *gradient = &arguments->gradient;

  arguments->table = push->split.table->spec.name;
  arguments->push = next_push (tables);
  gradient->kind = TPS_GRADIENT_SPARSE;
  gradient->weight = 1;
  gradient->rows = push->split.table->spec.shard.rows;
  tps_tensor_init_borrowed (&gradient->indices, push->split.parts[i].indices);
  tps_row_split_gather (&push->split, i, values, &gradient->values);
  return arguments;
}

static gconstpointer
fill_assignment (TpsRemoteTables *tables, RowPush *push, guint i, TpsTensorView values)
{
  TpsAssignRowsArguments *arguments = &push->assignments[i];

  arguments->table = push->split.table->spec.name;
  arguments->push = next_push (tables);
  tps_tensor_init_borrowed (&arguments->indices, push->split.parts[i].indices);
  tps_row_split_gather (&push->split, i, values, &arguments->values);
  return arguments;
}

static gboolean
check_values (const TpsPlacedTable *table, TpsTensorView indices, TpsTensorView values,
              GError **error)
{
  const TpsShape *shape = &values.shape;
  gint64 n_rows = indices.shape.dims[0];
  g_autofree gchar *wanted = NULL;

  if ((shape->dtype == TPS_DTYPE_FLOAT32 || shape->dtype == table->spec.dtype) && shape->n_dims == 2
      && shape->dims[0] == n_rows && shape->dims[1] == table->spec.dim
      && (values.data != NULL || n_rows == 0))
    return TRUE;
  wanted = g_strdup_printf ("%s [%" G_GINT64_FORMAT ", %d]", tps_dtype_name (table->spec.dtype),
                            n_rows, table->spec.dim);
  return refuse_shape (values, "values", wanted, error);
}

static void
push_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices, TpsTensorView values,
           gboolean is_assignment, gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (TpsPlacedTable) table = find_table (tables, name, &error);
  g_autofree TpsServerRequest *requests = NULL;
  RowPush *push;

  if (table == NULL || !check_indices (table, indices, &error)
      || !check_values (table, indices, values, &error))
    {
      fail (tables, NULL, done, user_data, error);
      return;
    }
  push = g_new0 (RowPush, 1);
  push->done = done;
  push->user_data = user_data;
  tps_row_split_init (&push->split, table, indices,
                      !is_assignment && tps_optimizer_counts_steps (&table->spec.optimizer));
  if (is_assignment)
    push->assignments = g_new0 (TpsAssignRowsArguments, MAX (push->split.n_parts, 1));
  else
    push->gradients = g_new0 (TpsApplyRowGradientsArguments, push->split.n_parts);
  requests = g_new0 (TpsServerRequest, push->split.n_parts);
  for (guint i = 0; i < push->split.n_parts; i++)
    {
      requests[i].server = table->servers[push->split.parts[i].shard];
      requests[i].arguments = is_assignment ? fill_assignment (tables, push, i, values)
                                            : fill_gradient (tables, push, i, values);
    }
  tps_servers_call (&tables->servers,
                    is_assignment ? &tps_assign_rows_rpc : &tps_apply_row_gradients_rpc, requests,
                    push->split.n_parts, deadline_ns, on_rows_applied, push);
}

void
tps_remote_tables_apply_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices,
                              TpsTensorView values, gint64 deadline_ns, TpsTablesApplied done,
                              gpointer user_data)
{
  push_rows (tables, name, indices, values, FALSE, deadline_ns, done, user_data);
}

void
tps_remote_tables_assign_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices,
                               TpsTensorView values, gint64 deadline_ns, TpsTablesApplied done,
                               gpointer user_data)
{
  push_rows (tables, name, indices, values, TRUE, deadline_ns, done, user_data);
}

/* ---- synchronous calls ---------------------------------------------------------------------- */

typedef struct
{
  guint n_outputs;
  TpsTensor *outputs;
  TpsOutcome outcome;
} Wait;

static void
on_applied (gpointer outcome, const GError *error)
{
  tps_outcome_set (outcome, error);
}

static void
on_looked_up (gpointer user_data, TpsTensor *outputs, const GError *error)
{
  Wait *wait = user_data;

  for (guint i = 0; error == NULL && i < wait->n_outputs; i++)
    tps_tensor_move (&wait->outputs[i], &outputs[i]);
  tps_outcome_set (&wait->outcome, error);
}

/* Waits for the first `n_outputs` tensors of a lookup of bags. */
static gboolean
look_up_bags (TpsRemoteTables *tables, const TpsBagQuery *queries, guint n_queries,
              gint64 deadline_ns, TpsTensor *outputs, guint n_outputs, GError **error)
{
  Wait wait = { .n_outputs = n_outputs, .outputs = outputs };

  tps_outcome_init (&wait.outcome);
  tps_remote_tables_lookup_bags (tables, queries, n_queries, deadline_ns, on_looked_up, &wait);
  return tps_outcome_wait (&wait.outcome, error);
}

gboolean
tps_remote_tables_lookup_bags_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                    guint n_queries, gint64 deadline_ns, TpsTensor *outputs,
                                    GError **error)
{
  return look_up_bags (tables, queries, n_queries, deadline_ns, outputs, n_queries, error);
}

gboolean
tps_remote_tables_lookup_maxima_sync (TpsRemoteTables *tables, const TpsBagQuery *queries,
                                      guint n_queries, gint64 deadline_ns, TpsTensor *outputs,
                                      GError **error)
{
  return look_up_bags (tables, queries, n_queries, deadline_ns, outputs, 2 * n_queries, error);
}

gboolean
tps_remote_tables_apply_bags_sync (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                                   guint n_gradients, gint64 deadline_ns, GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  tps_remote_tables_apply_bags (tables, gradients, n_gradients, deadline_ns, on_applied, &outcome);
  return tps_outcome_wait (&outcome, error);
}

gboolean
tps_remote_tables_lookup_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, gint64 deadline_ns, TpsTensor *rows,
                                    GError **error)
{
  Wait wait = { .n_outputs = 1, .outputs = rows };

  tps_outcome_init (&wait.outcome);
  tps_remote_tables_lookup_rows (tables, name, indices, deadline_ns, on_looked_up, &wait);
  return tps_outcome_wait (&wait.outcome, error);
}

gboolean
tps_remote_tables_apply_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                   TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                   GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  tps_remote_tables_apply_rows (tables, name, indices, values, deadline_ns, on_applied, &outcome);
  return tps_outcome_wait (&outcome, error);
}

gboolean
tps_remote_tables_assign_rows_sync (TpsRemoteTables *tables, const gchar *name,
                                    TpsTensorView indices, TpsTensorView values, gint64 deadline_ns,
                                    GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  tps_remote_tables_assign_rows (tables, name, indices, values, deadline_ns, on_applied, &outcome);
  return tps_outcome_wait (&outcome, error);
}

/* ---- the tables of a trainer ---------------------------------------------------------------- */

static void
client_lookup_bags (TpsTableClient *base, const TpsBagQuery *queries, guint n_queries,
                    gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  tps_remote_tables_lookup_bags ((TpsRemoteTables *) base, queries, n_queries, deadline_ns, done,
                                 user_data);
}

static void
client_apply_bags (TpsTableClient *base, const TpsBagGradient *gradients, guint n_gradients,
                   gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  tps_remote_tables_apply_bags ((TpsRemoteTables *) base, gradients, n_gradients, deadline_ns, done,
                                user_data);
}

static void
client_cancel (TpsTableClient *base)
{
  tps_remote_tables_cancel ((TpsRemoteTables *) base);
}

static void
client_free (TpsTableClient *base)
{
  tps_remote_tables_free ((TpsRemoteTables *) base);
}

TpsTableClient *
tps_remote_tables_as_client (TpsRemoteTables *tables)
{
  static const TpsTableClientOps ops = {
    .lookup_bags = client_lookup_bags,
    .apply_bags = client_apply_bags,
    .cancel = client_cancel,
    .free = client_free,
  };

  tables->base.ops = &ops;
  return &tables->base;
}
