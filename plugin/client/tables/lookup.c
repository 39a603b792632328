/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups of bags and rows. */

#include "plugin/client/tables/plan_sender.h"
#include "plugin/client/tables/known_tables.h"
#include "plugin/client/tables/row_split.h"
#include "plugin/wire/wire_embedding_table.h"

/* Calls `done`, and releases the tensors that `done` has not taken. */
static void
give_outputs (TpsTablesLookedUp done, gpointer user_data, TpsTensor *outputs, guint n_outputs)
{
  done (user_data, outputs, NULL);
  for (guint i = 0; i < n_outputs; i++)
    tps_tensor_clear (&outputs[i]);
}

/* -- bags -- */

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
  g_autoptr (GPtrArray) found = tps_remote_tables_find_all (tables, queries, n_queries,
                                                            sizeof queries[0], "queries", &error);
  BagLookup *lookup;

  if (found == NULL)
    {
      tps_remote_tables_fail_lookup (tables, done, user_data, error);
      return;
    }
  lookup = g_new (BagLookup, 1);
  lookup->plan = tps_lookup_plan_new ((TpsPlacedTable *const *) found->pdata, queries, n_queries,
                                      tables->exact ? TPS_SPLIT_EXACT : TPS_SPLIT_POOLED,
                                      tables->servers.n_servers);
  lookup->done = done;
  lookup->user_data = user_data;
  tps_lookup_plan_send (lookup->plan, &tables->servers, deadline_ns, on_bags_answered, lookup);
}

/* -- rows -- */

typedef struct RowLookup RowLookup;

typedef struct
{
  RowLookup *lookup;
  guint part;
  TpsLookupRowsArguments arguments; /* the name is borrowed */
} RowsOfPart;

struct RowLookup
{
  TpsServers *servers;
  TpsRowSplit split;
  RowsOfPart *parts;
  TpsServerRequest *requests;
  TpsTablesLookedUp done;
  gpointer user_data;
};

static gboolean
read_rows (TpsReader *in, TpsWireType type, gpointer user_data, GError **error)
{
  RowsOfPart *part = user_data;
  g_auto (TpsTensor) rows = { 0 };

  return tps_rpc_read_result (&tps_lookup_rows_rpc, in, type, &rows, error)
         && tps_row_split_take_answer (&part->lookup->split, part->part, &rows, error);
}

static void
free_row_lookup (RowLookup *lookup)
{
  for (guint i = 0; i < lookup->split.n_parts; i++)
    tps_tensor_clear (&lookup->parts[i].arguments.indices);
  tps_row_split_clear (&lookup->split);
  g_free (lookup->parts);
  g_free (lookup->requests);
  g_free (lookup);
}

static void
on_rows_answered (gpointer user_data, GError *const *errors)
{
  RowLookup *lookup = user_data;
  g_autoptr (GError) error = tps_servers_dup_error (lookup->servers, lookup->requests,
                                                    lookup->split.n_parts, errors, FALSE);
  g_auto (TpsTensor) rows = { 0 };

  if (error == NULL)
    {
      tps_row_split_merge (&lookup->split, &rows);
      give_outputs (lookup->done, lookup->user_data, &rows, 1);
    }
  else
    lookup->done (lookup->user_data, NULL, error);
  free_row_lookup (lookup);
}

static void
add_rows_of_part (RowLookup *lookup, guint i)
{
  const TpsPlacedTable *table = lookup->split.table;
  RowsOfPart *part = &lookup->parts[i];

  part->lookup = lookup;
  part->part = i;
  part->arguments.table = table->spec.name;
  tps_tensor_init_borrowed (&part->arguments.indices, lookup->split.parts[i].indices);
  lookup->requests[i] = (TpsServerRequest) {
    .server = table->servers[lookup->split.parts[i].shard],
    .arguments = &part->arguments,
    .read = read_rows,
    .result = part,
  };
}

void
tps_remote_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices,
                               gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (TpsPlacedTable) table = tps_remote_tables_find (tables, name, &error);
  RowLookup *lookup;

  if (table == NULL || !tps_remote_tables_check_indices (table, indices, &error))
    {
      tps_remote_tables_fail_lookup (tables, done, user_data, error);
      return;
    }
  lookup = g_new0 (RowLookup, 1);
  lookup->servers = &tables->servers;
  lookup->done = done;
  lookup->user_data = user_data;
  tps_row_split_init (&lookup->split, table, indices, FALSE);
  lookup->parts = g_new0 (RowsOfPart, lookup->split.n_parts);
  lookup->requests = g_new0 (TpsServerRequest, lookup->split.n_parts);
  for (guint i = 0; i < lookup->split.n_parts; i++)
    add_rows_of_part (lookup, i);
  tps_servers_call (&tables->servers, &tps_lookup_rows_rpc, lookup->requests, lookup->split.n_parts,
                    deadline_ns, on_rows_answered, lookup);
}
