/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/table_snapshot.h"

#include "runtime/server/tables/device/device_image.h"

gboolean
tps_table_capture_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to,
                        GError **error)
{
  gint64 lsn;

  if (table->on_device == NULL)
    {
      tps_table_copy_rows (table, slot, n, to);
      return TRUE;
    }
  if (!tps_device_rows_capture (table->on_device, slot, n, (gfloat *) (gpointer) to->rows,
                                to->state, &lsn, error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    to->lsns[i] = lsn;
  return TRUE;
}

gboolean
tps_table_fill_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from, GError **error)
{
  return tps_device_rows_fill (table->on_device, slot, n, (const gfloat *) (gpointer) from->rows,
                               from->state, from->lsns, error);
}

void
tps_table_begin_at (TpsTable *table, TpsTableProgress progress)
{
  table->n_steps = progress.n_steps;
  if (table->on_device != NULL)
    table->on_device->n_steps = progress.n_steps;
  tps_table_set_progress (table, progress);
}
