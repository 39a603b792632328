/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/known_tables.h"

#include "runtime/base/error.h"

void
tps_remote_tables_add (TpsRemoteTables *tables, TpsPlacedTable *table)
{
  tps_mutex_lock (&tables->lock);
  g_hash_table_replace (tables->tables, table->spec.name, table); /* the value owns the key */
  tps_mutex_unlock (&tables->lock);
}

void
tps_remote_tables_remove (TpsRemoteTables *tables, const TpsPlacedTable *table)
{
  tps_mutex_lock (&tables->lock);
  if (g_hash_table_lookup (tables->tables, table->spec.name) == table)
    g_hash_table_remove (tables->tables, table->spec.name);
  tps_mutex_unlock (&tables->lock);
}

/* Must be called with the lock held. */
static TpsPlacedTable *
find_locked (TpsRemoteTables *tables, const gchar *name, GError **error)
{
  TpsPlacedTable *table = name != NULL ? g_hash_table_lookup (tables->tables, name) : NULL;

  if (table != NULL)
    return tps_placed_table_ref (table);
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND,
               "table %s is not known here: it was neither created nor discovered",
               name != NULL ? name : "(none)");
  return NULL;
}

TpsPlacedTable *
tps_remote_tables_find (TpsRemoteTables *tables, const gchar *name, GError **error)
{
  TpsPlacedTable *table;

  tps_mutex_lock (&tables->lock);
  table = find_locked (tables, name, error);
  tps_mutex_unlock (&tables->lock);
  return table;
}

/* ---- checks --------------------------------------------------------------------------------- */

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

GPtrArray *
tps_remote_tables_find_all (TpsRemoteTables *tables, const TpsBagQuery *queries, guint n_queries,
                            gsize stride, const gchar *list, GError **error)
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

gboolean
tps_remote_tables_check_indices (const TpsPlacedTable *table, TpsTensorView indices, GError **error)
{
  g_autofree gchar *got = NULL;

  if (indices.shape.dtype == TPS_DTYPE_INT64 && indices.shape.n_dims == 1
      && (indices.data != NULL || indices.shape.dims[0] == 0))
    return tps_placed_table_check_rows (table, indices.data, (gsize) indices.shape.dims[0],
                                        "indices", error);
  got = indices.shape.dtype == 0 ? g_strdup ("missing") : tps_shape_to_string (&indices.shape);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "indices: %s, expected a vector of INT64", got);
  return FALSE;
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

static void
fail (TpsRemoteTables *tables, FailedCall call)
{
  tps_servers_defer (&tables->servers, report, g_memdup2 (&call, sizeof call));
}

void
tps_remote_tables_fail_lookup (TpsRemoteTables *tables, TpsTablesLookedUp done, gpointer user_data,
                               GError *error)
{
  fail (tables, (FailedCall) { .looked_up = done, .user_data = user_data, .error = error });
}

void
tps_remote_tables_fail_push (TpsRemoteTables *tables, TpsTablesApplied done, gpointer user_data,
                             GError *error)
{
  fail (tables, (FailedCall) { .applied = done, .user_data = user_data, .error = error });
}
