/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/rows_on_host.h"

static gsize
estimate (const TpsTable *table, gsize n_rows, gsize n_outputs)
{
  return n_rows * (table->row_bytes + sizeof (gint64)) + n_outputs * table->dim * sizeof (gfloat);
}

static TpsBufferPool *
get_answers (TpsTableStore *store, G_GNUC_UNUSED const TpsTable *table)
{
  return tps_table_store_get_answers (store);
}

static gboolean
has_output_on (G_GNUC_UNUSED const TpsTable *table, const TpsDevice *device)
{
  return device == NULL;
}

static gboolean
capture (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to, G_GNUC_UNUSED GError **error)
{
  tps_table_copy_rows (table, slot, n, to);
  return TRUE;
}

static void
begin_at (TpsTable *table, gint64 n_steps)
{
  table->n_steps = n_steps;
}

const TpsRowStore tps_rows_on_host = {
  .number = 0,
  .may_assign = TRUE,
  .knows_changed_rows = TRUE,
  .estimate = estimate,
  .get_answers = get_answers,
  .has_output_on = has_output_on,
  .read_rows = tps_rows_on_host_read,
  .begin_lookup = tps_rows_on_host_begin_lookup,
  .end_lookup = tps_rows_on_host_end_lookup,
  .reserve = tps_rows_on_host_reserve,
  .begin = tps_rows_on_host_begin,
  .run = tps_rows_on_host_run,
  .may_follow = tps_rows_on_host_may_follow,
  .capture = capture,
  .begin_at = begin_at,
};

const TpsRowStore *const tps_row_stores[TPS_N_ROW_STORES] = {
  &tps_rows_on_host,
  &tps_rows_on_device,
};
