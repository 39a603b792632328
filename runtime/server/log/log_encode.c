/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_encode.h"

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/server/log/log_format.h"

/* ---- walks ----------------------------------------------------------------------------------- */

typedef enum
{
  WALK_COUNT,    /* measures the record */
  WALK_VALUES,   /* writes all values except the elements of tensors */
  WALK_ELEMENTS, /* writes the elements of tensors */
} WalkKind;

/* A walk visits all parts of a command in order, and writes the bytes of one range of the body. The
 * body of a record is therefore never needed in memory as a whole, and a walk allocates nothing. */
typedef struct
{
  WalkKind kind;
  guint8 *to;          /* the destination of the byte at `begin` */
  gsize begin, end;    /* the range of the body that is written */
  gsize position;      /* of the next part in the body */
  gsize n_elems_bytes; /* of the tensors so far, with their padding */
  guint32 crc;         /* of all bytes of the body up to the last element written */
} Walk;

/* Writes the part of `value` that lies in the range of the walk. */
static void
put (Walk *walk, gconstpointer value, gsize n_bytes)
{
  gsize first = MAX (walk->position, walk->begin);
  gsize last = MIN (walk->position + n_bytes, walk->end);

  if (walk->kind == WALK_ELEMENTS)
    return;
  if (walk->kind == WALK_VALUES && first < last)
    memcpy (walk->to + (first - walk->begin), (const guint8 *) value + (first - walk->position),
            last - first);
  walk->position += n_bytes;
}

/* Copies bytes [position, position + n_bytes) of a part that consists of `n_data` bytes followed by
 * zeros. Returns `crc`, continued over the copied bytes. */
static guint32
copy_padded (guint32 crc, guint8 *to, const guint8 *data, gsize n_data, gsize position,
             gsize n_bytes)
{
  gsize n_copy = position < n_data ? MIN (n_data - position, n_bytes) : 0;

  if (n_copy > 0)
    crc = tps_crc32c_copy (crc, to, data + position, n_copy);
  memset (to + n_copy, 0, n_bytes - n_copy);
  return tps_crc32c (crc, to + n_copy, n_bytes - n_copy);
}

static void
put_elements (Walk *walk, const TpsTensorView *view)
{
  gsize n_data = tps_shape_n_bytes (&view->shape);
  gsize n_padded = align_up (n_data, TPS_LOG_RECORD_ALIGNMENT);
  gsize first = MAX (walk->position, walk->begin);
  gsize last = MIN (walk->position + n_padded, walk->end);

  walk->n_elems_bytes += n_padded;
  if (walk->kind != WALK_ELEMENTS)
    return;
  if (first < last)
    walk->crc = copy_padded (walk->crc, walk->to + (first - walk->begin), view->data, n_data,
                             first - walk->position, last - first);
  walk->position += n_padded;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void
put_u8 (Walk *walk, guint8 value)
{
  put (walk, &value, sizeof value);
}

static void
put_u32 (Walk *walk, guint32 value)
{
  put (walk, &value, sizeof value);
}

static void
put_i64 (Walk *walk, gint64 value)
{
  put (walk, &value, sizeof value);
}

static void
put_f64 (Walk *walk, gdouble value)
{
  put (walk, &value, sizeof value);
}

/* Writes the terminator too, so readers can use the text in place. */
static void
put_text (Walk *walk, const gchar *text)
{
  gsize length = strlen (text);

  put_u32 (walk, (guint32) length);
  put (walk, text, length + 1);
}

static void
put_tensor (Walk *walk, TpsTensorView view)
{
  put_u8 (walk, (guint8) view.shape.dtype);
  if (view.shape.dtype == 0)
    return;
  put_u8 (walk, (guint8) view.shape.n_dims);
  for (guint i = 0; i < view.shape.n_dims; i++)
    put_i64 (walk, view.shape.dims[i]);
  put_elements (walk, &view);
}

/* ---- parts of commands ----------------------------------------------------------------------- */

static void
put_id (Walk *walk, const TpsCommandId *id)
{
  put_u8 (walk, id->client == NULL ? 0 : id->tenant == NULL ? 1 : 2);
  if (id->client == NULL)
    return;
  put_text (walk, id->client);
  put_i64 (walk, id->sequence);
  put (walk, id->digest.bytes, sizeof id->digest.bytes);
  if (id->tenant != NULL)
    put_text (walk, id->tenant);
}

static void
put_tables (Walk *walk, const TpsCommand *command)
{
  put_u32 (walk, command->n_tables);
  for (guint i = 0; i < command->n_tables; i++)
    {
      const TpsCommandTable *table = &command->tables[i];

      put_text (walk, table->name);
      put_i64 (walk, table->incarnation);
      put_u8 (walk, table->is_skipped ? TABLE_IS_SKIPPED : 0);
    }
}

static void
put_optimizer (Walk *walk, const TpsOptimizerSpec *spec)
{
  TpsOptimizerSpec copy = *spec;

  put_u8 (walk, (guint8) spec->kind);
  for (guint i = 0; i < TPS_OPTIMIZER_N_NUMBERS; i++)
    put_f64 (walk, *tps_optimizer_spec_number (&copy, i));
}

static void
put_create (Walk *walk, const TpsTableSpec *spec)
{
  put_text (walk, spec->name);
  put_u32 (walk, (guint32) spec->dim);
  put_u8 (walk, (guint8) spec->dtype);
  put_u8 (walk, (guint8) spec->shard.kind);
  put_i64 (walk, spec->shard.rows);
  put_i64 (walk, spec->shard.first_row);
  put_i64 (walk, spec->shard.n_rows);
  put_u32 (walk, (guint32) spec->shard.index);
  put_u32 (walk, (guint32) spec->shard.count);
  put_u8 (walk, (guint8) spec->initializer.kind);
  put_f64 (walk, spec->initializer.low);
  put_f64 (walk, spec->initializer.high);
  put_f64 (walk, spec->initializer.mean);
  put_f64 (walk, spec->initializer.stdev);
  put_i64 (walk, spec->initializer.seed);
  put_optimizer (walk, &spec->optimizer);
  put_text (walk, spec->place.device);
  put_u8 (walk, spec->place.is_host_memory ? PLACE_IS_HOST_MEMORY : 0);
  put_u8 (walk, (guint8) spec->durability);
  if (spec->tenant != NULL || spec->rounding == TPS_ROUNDING_STOCHASTIC)
    put_text (walk, spec->tenant != NULL ? spec->tenant : "");
  if (spec->rounding == TPS_ROUNDING_STOCHASTIC)
    put_u8 (walk, (guint8) spec->rounding);
}

static void
put_bags (Walk *walk, const TpsCommandBags *bags)
{
  put_u32 (walk, bags->n_gradients);
  for (guint i = 0; i < bags->n_gradients; i++)
    {
      const TpsBagGradient *gradient = &bags->gradients[i];

      put_text (walk, gradient->query.table);
      put_u8 (walk, (guint8) gradient->query.pooling);
      put_tensor (walk, gradient->query.indices);
      put_tensor (walk, gradient->query.offsets);
      put_tensor (walk, gradient->query.weights);
      put_tensor (walk, gradient->gradient);
      put_u8 (walk, 0); /* no tensor */
    }
}

static void
put_model (Walk *walk, const TpsCommandModel *model)
{
  put_optimizer (walk, model->optimizer);
  put_u32 (walk, model->n_parameters);
  for (guint i = 0; i < model->n_parameters; i++)
    {
      put_text (walk, model->parameters[i].name);
      put_tensor (walk, tps_tensor_view (&model->parameters[i].tensor));
    }
}

static void
put_update (Walk *walk, const TpsCommandUpdate *update)
{
  put_u32 (walk, update->n_ids);
  for (guint i = 0; i < update->n_ids; i++)
    put_id (walk, &update->ids[i]);
  put_u32 (walk, update->n_parameters);
  put_u32 (walk, update->n_contributions);
  for (guint i = 0; i < update->n_contributions; i++)
    {
      put_u32 (walk, (guint32) update->contributions[i].trainer);
      for (guint p = 0; p < update->n_parameters; p++)
        put_tensor (walk, tps_tensor_view (&update->contributions[i].gradients[p]));
    }
}

static void
put_body (Walk *walk, const TpsCommand *command)
{
  put_id (walk, &command->id);
  put_tables (walk, command);
  switch (command->kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      put_create (walk, command->create);
      break;
    case TPS_COMMAND_DROP_TABLE:
      put_text (walk, command->drop);
      break;
    case TPS_COMMAND_APPLY_ROWS:
      put_tensor (walk, command->rows.indices);
      put_tensor (walk, command->rows.values);
      break;
    case TPS_COMMAND_ASSIGN_ROWS:
      put_tensor (walk, command->rows.indices);
      put_tensor (walk, command->rows.values);
      put_i64 (walk, command->rows.as_of_lsn);
      break;
    case TPS_COMMAND_APPLY_BAGS:
      put_bags (walk, &command->bags);
      break;
    case TPS_COMMAND_INIT_MODEL:
      put_model (walk, &command->model);
      break;
    case TPS_COMMAND_UPDATE_MODEL:
      put_update (walk, &command->update);
      break;
    case TPS_COMMAND_RESET_MODEL:
      break;
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

void
tps_record_plan_set (TpsRecordPlan *plan, const TpsCommand *command, gboolean with_body)
{
  Walk walk = { .kind = WALK_COUNT };

  *plan = (TpsRecordPlan) {
    .lsn = command->lsn,
    .kind = with_body ? (guint16) command->kind : RECORD_KIND_HOLE,
    .flags = with_body && command->has_failed ? RECORD_HAS_FAILED : 0,
    .time_ms = with_body ? command->time_ms : 0,
    .command = with_body ? command : NULL,
  };
  if (with_body)
    put_body (&walk, command);
  plan->n_values = walk.position;
  plan->n_bytes = TPS_LOG_RECORD_HEADER + align_up (plan->n_values, TPS_LOG_RECORD_ALIGNMENT)
                  + walk.n_elems_bytes;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void
tps_record_encode_begin (TpsRecordPlan *plan)
{
  plan->position = 0;
  plan->body_crc = 0;
}

/* Writes bytes [position, end) of the values and of the padding after them. */
static void
encode_values (TpsRecordPlan *plan, guint8 *to, gsize end)
{
  Walk walk = { .kind = WALK_VALUES, .to = to, .begin = plan->position, .end = end };
  gsize n_done = MAX (plan->n_values, plan->position);

  put_body (&walk, plan->command);
  if (n_done < end)
    memset (to + (n_done - plan->position), 0, end - n_done);
  plan->body_crc = tps_crc32c (plan->body_crc, to, end - plan->position);
  plan->position = end;
}

/* Writes bytes [position, end) of the elements, which begin at `first` in the body. */
static void
encode_elements (TpsRecordPlan *plan, guint8 *to, gsize first, gsize end)
{
  Walk walk = { .kind = WALK_ELEMENTS,
                .to = to,
                .begin = plan->position,
                .end = end,
                .position = first,
                .crc = plan->body_crc };

  put_body (&walk, plan->command);
  plan->body_crc = walk.crc;
  plan->position = end;
}

gsize
tps_record_encode_some (TpsRecordPlan *plan, guint8 *to, gsize n_bytes)
{
  gsize begin = plan->position;
  gsize end = MIN (plan->n_bytes - TPS_LOG_RECORD_HEADER, begin + n_bytes);
  gsize elements = align_up (plan->n_values, TPS_LOG_RECORD_ALIGNMENT);

  if (begin < MIN (end, elements))
    encode_values (plan, to, MIN (end, elements));
  if (plan->position < end)
    encode_elements (plan, to + (plan->position - begin), elements, end);
  return end - begin;
}

void
tps_record_encode_end (const TpsRecordPlan *plan, guint8 *header)
{
  RecordHeader record = { .magic = RECORD_MAGIC,
                          .lsn = plan->lsn,
                          .body_bytes = plan->n_bytes - TPS_LOG_RECORD_HEADER,
                          .body_crc = plan->body_crc,
                          .meta_bytes = (guint32) plan->n_values,
                          .kind = plan->kind,
                          .flags = plan->flags,
                          .time_ms = plan->time_ms };

  record.header_crc = tps_crc32c (0, &record, sizeof record);
  memcpy (header, &record, sizeof record);
}

void
tps_record_encode (TpsRecordPlan *plan, guint8 *to)
{
  tps_record_encode_begin (plan);
  tps_record_encode_some (plan, to + TPS_LOG_RECORD_HEADER, plan->n_bytes - TPS_LOG_RECORD_HEADER);
  tps_record_encode_end (plan, to);
}

/* ---- groups and segments --------------------------------------------------------------------- */

guint32
tps_group_count_zero_sectors (const guint8 *data, gsize n_bytes)
{
  static const guint8 zeros[TPS_DISK_SECTOR];
  guint32 n_zero = 0;

  for (gsize at = 0; at < n_bytes; at += TPS_DISK_SECTOR)
    n_zero += memcmp (data + at, zeros, sizeof zeros) == 0;
  return n_zero;
}

void
tps_group_encode_head (guint8 *head, const TpsGroupHead *group)
{
  GroupHeader header = { .magic = GROUP_MAGIC,
                         .stamp = group->stamp,
                         .offset = (guint64) group->offset,
                         .first_lsn = group->first_lsn,
                         .n_bytes = (guint64) group->n_bytes,
                         .n_records = group->n_records,
                         .n_zero_sectors = group->n_zero_sectors };

  header.header_crc = tps_crc32c (0, &header, sizeof header);
  memcpy (head, &header, sizeof header);
}

void
tps_segment_encode_head (guint8 *block, const TpsSegmentHead *segment)
{
  SegmentHeader header = { .magic = SEGMENT_MAGIC,
                           .version = TPS_LOG_VERSION,
                           .number = segment->number,
                           .stamp = segment->stamp };

  memcpy (header.log_id, segment->id.bytes, sizeof header.log_id);
  header.header_crc = tps_crc32c (0, &header, sizeof header);
  memset (block, 0, TPS_DISK_BLOCK);
  memcpy (block, &header, sizeof header);
}

gchar *
tps_log_marker_to_text (const TpsLogId *id)
{
  g_autofree gchar *hex = tps_log_id_to_text (id);

  return g_strdup_printf ("thriftps log\nversion %d\nid %s\n", TPS_LOG_VERSION, hex);
}
