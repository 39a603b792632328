/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The row store of devices. The queries or gradients of one call form one batch for all devices. */

#include "runtime/device/device_memory.h"
#include "runtime/server/tables/device/device_rows.h"
#include "runtime/server/tables/device/device_step.h"
#include "runtime/server/tables/row_store.h"

/* An estimate of the heap memory for one gradient in the lists of tps_device_steps_run(). This
 * memory is charged together with the scratch. */
#define LIST_BYTES 512

static gboolean
is_mine (const TpsTable *table)
{
  return table->row_store == &tps_rows_on_device;
}

static gsize
estimate (G_GNUC_UNUSED const TpsTable *table, G_GNUC_UNUSED gsize n_rows,
          G_GNUC_UNUSED gsize n_outputs)
{
  return TPS_TABLE_STORE_WAITS;
}

static TpsBufferPool *
get_answers (G_GNUC_UNUSED TpsTableStore *store, const TpsTable *table)
{
  return table->on_device->lanes->answers;
}

static gboolean
has_output_on (const TpsTable *table, const TpsDevice *device)
{
  return table->on_device->lanes->device == device;
}

static TpsDeviceBags
convert (const TpsTableBags *bags)
{
  return (TpsDeviceBags) {
    .rows = bags->table->on_device,
    .slots = bags->slots,
    .base = bags->base,
    .n_indices = bags->n_indices,
    .offsets = bags->offsets,
    .n_bags = bags->n_bags,
    .weights = bags->weights,
    .pooling = bags->pooling,
  };
}

/* -- lookups -- */

static gboolean
read_rows (G_GNUC_UNUSED TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots,
           TpsTensor *rows, G_GNUC_UNUSED TpsTensor *lsns, GError **error)
{
  gsize n_rows = (gsize) rows->shape.dims[0];
  TpsDeviceQuery query = {
    .bags = { .rows = table->on_device,
              .slots = slots->slots,
              .base = slots->base,
              .n_indices = n_rows,
              .n_bags = n_rows,
              .pooling = TPS_POOLING_SUM },
    .dtype = table->spec.dtype,
    .output = tps_tensor_data (rows),
    .is_on_device = tps_device_memory_of_tensor (rows) != NULL,
  };
  TpsDeviceLookup *lookup = tps_device_lookup_begin (&query, 1, error);

  return lookup != NULL && tps_device_lookup_end (lookup, error);
}

static gboolean
begin_lookup (TpsLookup *lookup, GError **error)
{
  guint n = 0;

  for (guint i = 0; i < lookup->n_queries; i++)
    {
      const TpsLookupQuery *query = &lookup->queries[i];

      if (is_mine (query->open.table))
        lookup->on_devices[n++] = (TpsDeviceQuery) { convert (&query->open.bags), TPS_DTYPE_FLOAT32,
                                                     query->output, query->is_on_device };
    }
  lookup->running = tps_device_lookup_begin (lookup->on_devices, n, error);
  return lookup->running != NULL;
}

static gboolean
end_lookup (TpsLookup *lookup, GError **error)
{
  return tps_device_lookup_end (lookup->running, error);
}

/* -- pushes -- */

static void
reserve (TpsApply *apply)
{
  apply->on_devices = tps_scratch_reserve (&apply->scratch, apply->n_in[tps_rows_on_device.number],
                                           sizeof (TpsDeviceGradient) + LIST_BYTES);
}

static void
begin (G_GNUC_UNUSED TpsApply *apply)
{
}

static gboolean
takes_step (const TpsApply *apply, const TpsApplyPart *part)
{
  return is_mine (part->open.table) && !apply->steps[part->step].is_left_out;
}

static guint
list_gradients (TpsApply *apply, TpsDeviceGradient *gradients)
{
  guint n = 0;

  for (guint i = 0; i < apply->n_parts; i++)
    {
      const TpsApplyPart *part = &apply->parts[i];

      if (!takes_step (apply, part))
        continue;
      apply->tables[part->step].is_skipped = TRUE; /* until the step is known to be complete */
      gradients[n++] = (TpsDeviceGradient) {
        .bags = convert (&part->open.bags),
        .gradient = part->gradient,
        .dtype = part->dtype,
      };
    }
  return n;
}

static gboolean
run (TpsApply *apply, gint64 lsn, GError **error)
{
  TpsDeviceGradient *gradients = tps_scratch_at (&apply->scratch, apply->on_devices);
  gboolean ok = tps_device_steps_run (gradients, list_gradients (apply, gradients), lsn, error);
  guint n = 0;

  for (guint i = 0; i < apply->n_parts; i++)
    if (takes_step (apply, &apply->parts[i]) && gradients[n++].is_done)
      {
        TpsTable *table = apply->parts[i].open.table;

        apply->tables[apply->parts[i].step].is_skipped = FALSE;
        tps_table_set_progress (table, (TpsTableProgress) { lsn, table->on_device->n_steps });
      }
  return ok;
}

static gboolean
may_follow (G_GNUC_UNUSED const TpsApplyStep *step)
{
  return FALSE;
}

/* -- snapshots -- */

static gboolean
capture (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to, GError **error)
{
  gint64 lsn;

  if (!tps_device_rows_capture (table->on_device, slot, n, to->rows, to->state, &lsn, error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    to->lsns[i] = lsn;
  return TRUE;
}

static gboolean
fill (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from, GError **error)
{
  return tps_device_rows_fill (table->on_device, slot, n, from->rows, from->state, from->lsns,
                               error);
}

static void
begin_at (TpsTable *table, gint64 n_steps)
{
  table->on_device->n_steps = n_steps;
}

const TpsRowStore tps_rows_on_device = {
  .number = 1,
  .may_assign = FALSE,
  .knows_changed_rows = FALSE,
  .estimate = estimate,
  .get_answers = get_answers,
  .has_output_on = has_output_on,
  .read_rows = read_rows,
  .begin_lookup = begin_lookup,
  .end_lookup = end_lookup,
  .reserve = reserve,
  .begin = begin,
  .run = run,
  .may_follow = may_follow,
  .capture = capture,
  .fill = fill,
  .begin_at = begin_at,
};
