/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Commands that create and drop tables: from their admission to their end. */

#include "runtime/server/tables/table_store_private.h"

#include "runtime/base/planted_bug.h"
#include "runtime/base/trace.h"

static TpsTraceEvent table_created = TPS_TRACE_EVENT ("table_created", TPS_TRACE_INFO);

static void
change_ended (TpsOrdered *ordered, const GError *error)
{
  tps_outcome_set (&((TpsTableChange *) ordered)->outcome, error);
}

void
tps_table_change_init (TpsTableChange *change, TpsCommandKind kind, const TpsTableSpec *spec)
{
  *change = (TpsTableChange) {
    .ordered = { .command = &change->command, .ended = change_ended },
    .command = { .kind = kind },
  };
  tps_table_spec_copy (&change->spec, spec);
  /* The table exists after a crash in every durability of its pushes (embedding_table.thrift). */
  change->command.durability = TPS_DURABILITY_COMMIT;
  TPS_PLANT ("tables-not-logged", change->command.durability = TPS_DURABILITY_NONE);
  if (kind == TPS_COMMAND_CREATE_TABLE)
    change->command.create = &change->spec;
  else
    change->command.drop = change->spec.name;
  tps_outcome_init (&change->outcome);
}

gboolean
tps_table_change_finish (TpsTableChange *change, TpsTableStore *store, GError **error)
{
  gboolean ok;

  tps_sequencer_finish (store->sequencer, &change->ordered);
  ok = tps_outcome_wait (&change->outcome, error);
  tps_table_spec_clear (&change->spec);
  return ok;
}

void
tps_table_change_trace_created (const TpsTableSpec *spec)
{
  tps_trace (&table_created, tps_field_text ("table", spec->name),
             tps_field_int ("rows", spec->shard.rows), tps_field_int ("dim", spec->dim),
             tps_field_text ("dtype", tps_dtype_name (spec->dtype)),
             tps_field_text ("device", spec->place.device));
}
