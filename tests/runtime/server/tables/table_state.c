/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/tables/table_state.h"

#include "runtime/server/tables/table_snapshot.h"

/* Declared in runtime/server/tables/table_calls.h, which is private to that folder. */
TpsTable *tps_table_store_ref_table (TpsTableStore *store, const gchar *table, GError **error);

/* Returns NULL if the device is lost. */
static gpointer
dup_device_state (TpsTable *table)
{
  gsize n = (gsize) table->spec.shard.n_rows;
  g_autofree guint8 *rows = g_malloc (n * table->row_bytes);
  g_autofree gint64 *lsns = g_new (gint64, n);
  gfloat *state = g_new (gfloat, n * table->state_per_row);
  TpsTableCopy copy = { rows, state, lsns };

  if (tps_table_capture_rows (table, 0, n, &copy, NULL))
    return state;
  g_free (state);
  return NULL;
}

gpointer
tps_test_dup_table_state (TpsTableStore *store, const gchar *name, gsize *n_bytes, gint64 *n_steps)
{
  g_autoptr (TpsTable) table = tps_table_store_ref_table (store, name, NULL);

  *n_bytes = (gsize) table->spec.shard.n_rows * table->state_per_row * sizeof (gfloat);
  *n_steps = table->on_device != NULL ? table->on_device->n_steps : table->n_steps;
  return table->on_device != NULL ? dup_device_state (table) : g_memdup2 (table->state, *n_bytes);
}

TpsPushWindow *
tps_test_get_pushes (TpsTableStore *store)
{
  return store->pushes;
}
