/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/remote_tables.h"

#include <string.h>
#include <sys/random.h>

#include "plugin/client/tables/remote_calls.h"
#include "plugin/wire/value_kinds.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"

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
tps_remote_tables_new (const TpsRemoteTablesOptions *options, GError **error)
{
  TpsClientOptions common = {
    .max_message_bytes = options->max_message_bytes,
    .lookup_device = options->lookup_device,
    .tls = options->tls,
    .token = options->token,
  };
  TpsRemoteTables *tables;

  if (options->client != NULL && !tps_name_is_valid (options->client, strlen (options->client)))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "client: \"%.64s\", expected [A-Za-z0-9_.:/-]{1,255}", options->client);
      return NULL;
    }
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

/* ---- creation, dropping and discovery of tables --------------------------------------------- */

/* Creation, dropping and discovery of tables. All of these calls wait. */

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

/* Returns the tables of each server. */
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
    tps_remote_tables_add (tables, tps_placed_table_ref (found->pdata[i]));
  return TRUE;
}

static void
clear_spec (gpointer spec)
{
  tps_table_spec_clear (spec);
}

GArray *
tps_remote_tables_list (TpsRemoteTables *tables, gint64 deadline_ns, GError **error)
{
  g_autoptr (GPtrArray) found = ask_tables (tables, deadline_ns, error);
  GArray *specs;

  if (found == NULL)
    return NULL;
  specs = g_array_new (FALSE, TRUE, sizeof (TpsTableSpec));
  g_array_set_clear_func (specs, clear_spec);
  for (guint i = 0; i < found->len; i++)
    {
      const TpsPlacedTable *table = found->pdata[i];
      TpsTableSpec spec;

      tps_table_spec_copy (&spec, &table->spec);
      g_array_append_val (specs, spec);
    }
  return specs;
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
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "placement.server: %u is not in [0, %u)", placement->server, n_servers);
      return NULL;
    case TPS_SHARD_RANGE:
    case TPS_SHARD_HASH:
      return tps_placed_table_new_dealt (&whole, placement->kind, n_servers);
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "placement.kind: unknown kind %d",
               (gint) placement->kind);
  return NULL;
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

/* Returns the difference between the server's table of this name and the part that the server
 * should have; NULL = none. */
static gchar *
dup_conflict (const TpsPlacedTable *table, guint server, const TpsTableSpec *there)
{
  gint shard = find_shard (table, server);
  g_auto (TpsTableSpec) part = { 0 };

  if (shard < 0)
    return g_strdup ("this server must not have a part of it");
  tps_placed_table_init_part (table, (guint) shard, &part);
  return tps_table_spec_dup_difference (there, &part);
}

static gboolean
check_part_there (const TpsRemoteTables *tables, const TpsPlacedTable *table, guint server,
                  const TpsTableSpec *there, GError **error)
{
  g_autofree gchar *conflict = dup_conflict (table, server, there);

  if (conflict == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
               "server %u (%s): table %s exists already: %s", server,
               tables->servers.addresses[server], table->spec.name, conflict);
  return FALSE;
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
tps_remote_tables_create (TpsRemoteTables *tables, const TpsTableSpec *spec,
                          const TpsTablePlacement *placement, gint64 deadline_ns, GError **error)
{
  g_autoptr (TpsPlacedTable) table = place_table (tables, spec, placement, error);
  g_autofree gboolean *is_missing = NULL;

  if (table == NULL)
    return FALSE;
  is_missing = g_new0 (gboolean, table->n_shards);
  if (!find_missing (tables, table, deadline_ns, is_missing, error)
      || !create_missing (tables, table, is_missing, deadline_ns, error))
    return FALSE;
  tps_remote_tables_add (tables, g_steal_pointer (&table));
  return TRUE;
}

/* ---- dropping ------------------------------------------------------------------------------- */

/* A missing part counts as dropped. An earlier attempt whose reply was lost, or a different client,
 * may have dropped it. */
static void
forgive_not_found (Batch *batch)
{
  for (guint i = 0; i < batch->n_requests; i++)
    if (g_error_matches (batch->errors[i], TPS_ERROR, TPS_ERROR_NOT_FOUND))
      g_clear_error (&batch->errors[i]);
}

gboolean
tps_remote_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 deadline_ns,
                        GError **error)
{
  g_autoptr (TpsPlacedTable) table = tps_remote_tables_find (tables, name, error);
  g_autoptr (Batch) batch = batch_new (tables);

  if (table == NULL)
    return FALSE;
  for (guint shard = 0; shard < table->n_shards; shard++)
    {
      TpsServerRequest *request = batch_add (batch, table->servers[shard]);

      request->arguments = &table->spec.name;
    }
  batch_run (batch, &tps_drop_table_rpc, deadline_ns);
  forgive_not_found (batch);
  if (!batch_propagate (batch, error))
    return FALSE;
  tps_remote_tables_remove (tables, table);
  return TRUE;
}

/* ---- synchronous calls ---------------------------------------------------------------------- */

/* The synchronous forms of the asynchronous calls. */

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

/* Remote tables as the TpsTableClient of a trainer. */

typedef struct
{
  TpsTableClient base;
  TpsRemoteTables *tables;
} RemoteTableClient;

static void
client_lookup_bags (TpsTableClient *base, const TpsBagQuery *queries, guint n_queries,
                    gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  tps_remote_tables_lookup_bags (((RemoteTableClient *) base)->tables, queries, n_queries,
                                 deadline_ns, done, user_data);
}

static void
client_apply_bags (TpsTableClient *base, const TpsBagGradient *gradients, guint n_gradients,
                   gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  tps_remote_tables_apply_bags (((RemoteTableClient *) base)->tables, gradients, n_gradients,
                                deadline_ns, done, user_data);
}

static void
client_cancel (TpsTableClient *base)
{
  tps_remote_tables_cancel (((RemoteTableClient *) base)->tables);
}

static void
client_free (TpsTableClient *base)
{
  tps_remote_tables_free (((RemoteTableClient *) base)->tables);
  g_free (base);
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
  RemoteTableClient *client = g_new (RemoteTableClient, 1);

  *client = (RemoteTableClient) { .base = { .ops = &ops }, .tables = tables };
  return &client->base;
}
