/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/table_snapshot.h"

#include "runtime/server/tables/row_store.h"

gboolean
tps_table_capture_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to,
                        GError **error)
{
  return table->row_store->capture (table, slot, n, to, error);
}

gboolean
tps_table_knows_changed_rows (const TpsTable *table)
{
  return table->row_store->knows_changed_rows;
}

gboolean
tps_table_is_filled_by_pieces (const TpsTable *table)
{
  return table->row_store->fill != NULL;
}

gboolean
tps_table_fill_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from, GError **error)
{
  return table->row_store->fill (table, slot, n, from, error);
}

void
tps_table_begin_at (TpsTable *table, TpsTableProgress progress)
{
  table->row_store->begin_at (table, progress.n_steps);
  tps_table_set_progress (table, progress);
}
