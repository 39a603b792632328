/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions for tables on any number of servers. */

#include <unistd.h>

#include "plugin/python/native/python_call.h"
#include "plugin/python/native/python_values.h"

TpsRemoteTables *
tps_python_tables_new (const gchar *const *addresses, guint n_addresses, const gchar *client,
                       gboolean exact, const TpsPythonTls *tls, TpsPythonCall **failed)
{
  TpsRemoteTablesOptions options = {
    .addresses = addresses, .n_addresses = n_addresses, .client = client, .exact = exact
  };
  g_autoptr (TpsTls) files = NULL;
  GError *error = NULL;
  TpsRemoteTables *tables = NULL;

  if (tps_python_read_tls (tls, &files, &error))
    {
      options.tls = files;
      options.token = g_getenv ("THRIFTPS_TOKEN");
      tables = tps_remote_tables_new (&options, &error);
    }
  if (tables == NULL)
    *failed = tps_python_call_new_ended (error);
  return tables;
}

void
tps_python_tables_cancel (TpsRemoteTables *tables)
{
  tps_remote_tables_cancel (tables);
}

void
tps_python_tables_free (TpsRemoteTables *tables, gint32 owner)
{
  if (owner == getpid ())
    tps_remote_tables_free (tables);
}

/* ---- blocking calls ---- */

TpsPythonCall *
tps_python_tables_create (TpsRemoteTables *tables, const TpsRemoteTable *table, gint64 timeout_ns)
{
  GError *error = NULL;

  tps_remote_tables_create (tables, table, tps_python_deadline (timeout_ns), &error);
  return tps_python_call_new_ended (error);
}

TpsPythonCall *
tps_python_tables_drop (TpsRemoteTables *tables, const gchar *name, gint64 timeout_ns)
{
  GError *error = NULL;

  tps_remote_tables_drop (tables, name, tps_python_deadline (timeout_ns), &error);
  return tps_python_call_new_ended (error);
}

TpsPythonCall *
tps_python_tables_discover (TpsRemoteTables *tables, gint64 timeout_ns)
{
  GError *error = NULL;

  tps_remote_tables_discover (tables, tps_python_deadline (timeout_ns), &error);
  return tps_python_call_new_ended (error);
}

/* A table as an object of JSON. */
static const TpsField table_fields[] = {
  TPS_FIELD_WITH (TpsRemoteTable, name, 1, TPS_FIELD_REQUIRED, tps_kind_string, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, rows, 2, TPS_FIELD_REQUIRED, tps_kind_i64, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, dim, 3, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, dtype, 4, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, rounding, 5, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, bytes, 6, TPS_FIELD_REQUIRED, tps_kind_i64, NULL),
  { "device", 7, TPS_FIELD_REQUIRED, &tps_kind_string, NULL,
    G_STRUCT_OFFSET (TpsRemoteTable, place), 0 },
  TPS_FIELD_WITH (TpsRemoteTable, durability, 8, TPS_FIELD_REQUIRED, tps_kind_i32, NULL),
  TPS_FIELD_WITH (TpsRemoteTable, optimizer, 9, TPS_FIELD_REQUIRED, tps_kind_struct,
                  &tps_optimizer_struct),
  TPS_FIELD_END
};
static const TpsStruct table_struct = TPS_STRUCT ("Table", table_fields);
static const TpsList table_list = { TPS_RESULT (tps_kind_struct, &table_struct),
                                    TPS_LIST_PTR_ARRAY };
static const TpsField tables_field = TPS_RESULT (tps_kind_list, &table_list);

TpsPythonCall *
tps_python_tables_list (TpsRemoteTables *tables, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray)
      list = tps_remote_tables_list (tables, tps_python_deadline (timeout_ns), &error);

  if (list != NULL)
    tps_python_call_take_text (call, tps_field_to_json (&tables_field, &list));
  tps_python_call_end (call, error);
  return call;
}

/* ---- asynchronous calls ---- */

typedef struct
{
  TpsPythonCall *call;
  guint n_outputs;
} Lookup;

static void
on_looked_up (gpointer user_data, TpsTensor *outputs, const GError *error)
{
  Lookup *lookup = user_data;

  if (error == NULL)
    tps_python_call_take_tensors (lookup->call, outputs, lookup->n_outputs);
  tps_python_call_end (lookup->call, error);
  g_free (lookup);
}

static void
on_applied (gpointer user_data, const GError *error)
{
  tps_python_call_end (user_data, error);
}

static Lookup *
lookup_new (TpsPythonCall *call, guint n_outputs)
{
  Lookup *lookup = g_new (Lookup, 1);

  *lookup = (Lookup) { call, n_outputs };
  return lookup;
}

TpsPythonCall *
tps_python_tables_lookup_bags (TpsRemoteTables *tables, const TpsBagQuery *queries, guint n_queries,
                               gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_lookup_bags (tables, queries, n_queries, tps_python_deadline (timeout_ns),
                                 on_looked_up, lookup_new (call, 2 * n_queries));
  return call;
}

TpsPythonCall *
tps_python_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                              guint n_gradients, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_apply_bags (tables, gradients, n_gradients, tps_python_deadline (timeout_ns),
                                on_applied, call);
  return call;
}

TpsPythonCall *
tps_python_tables_lookup_rows (TpsRemoteTables *tables, const gchar *name,
                               const TpsTensorView *indices, gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_lookup_rows (tables, name, *indices, tps_python_deadline (timeout_ns),
                                 on_looked_up, lookup_new (call, 1));
  return call;
}

TpsPythonCall *
tps_python_tables_apply_rows (TpsRemoteTables *tables, const gchar *name,
                              const TpsTensorView *indices, const TpsTensorView *values,
                              gint64 timeout_ns)
{
  TpsPythonCall *call = tps_python_call_new ();

  tps_remote_tables_apply_rows (tables, name, *indices, *values, tps_python_deadline (timeout_ns),
                                on_applied, call);
  return call;
}
