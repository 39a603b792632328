/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_encode.h"

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/server/log/log_format.h"

/* ---- values ---------------------------------------------------------------------------------- */

static void
put (GByteArray *meta, gconstpointer value, gsize n_bytes)
{
  g_byte_array_append (meta, value, (guint) n_bytes);
}

static void
put_u8 (GByteArray *meta, guint8 value)
{
  put (meta, &value, sizeof value);
}

static void
put_u32 (GByteArray *meta, guint32 value)
{
  put (meta, &value, sizeof value);
}

static void
put_i64 (GByteArray *meta, gint64 value)
{
  put (meta, &value, sizeof value);
}

static void
put_f64 (GByteArray *meta, gdouble value)
{
  put (meta, &value, sizeof value);
}

/* Includes the terminator, so that readers may use the text in place. */
static void
put_text (GByteArray *meta, const gchar *text)
{
  gsize length = strlen (text);

  put_u32 (meta, (guint32) length);
  put (meta, text, length + 1);
}

/* Appends the shape; the elements follow after all of meta. */
static void
put_tensor (TpsRecordPlan *plan, TpsTensorView view)
{
  put_u8 (plan->meta, (guint8) view.shape.dtype);
  if (view.shape.dtype == 0)
    return;
  put_u8 (plan->meta, (guint8) view.shape.n_dims);
  for (guint i = 0; i < view.shape.n_dims; i++)
    put_i64 (plan->meta, view.shape.dims[i]);
  g_array_append_val (plan->tensors, view);
}

/* ---- parts of commands ----------------------------------------------------------------------- */

static void
put_id (GByteArray *meta, const TpsCommandId *id)
{
  put_u8 (meta, id->client != NULL);
  if (id->client == NULL)
    return;
  put_text (meta, id->client);
  put_i64 (meta, id->sequence);
  put (meta, id->digest.bytes, sizeof id->digest.bytes);
}

static void
put_tables (GByteArray *meta, const TpsCommand *command)
{
  put_u32 (meta, command->n_tables);
  for (guint i = 0; i < command->n_tables; i++)
    {
      const TpsCommandTable *table = &command->tables[i];

      put_text (meta, table->name);
      put_i64 (meta, table->incarnation);
      put_u8 (meta, table->is_skipped ? TABLE_IS_SKIPPED : 0);
    }
}

static void
put_optimizer (GByteArray *meta, const TpsOptimizerSpec *spec)
{
  put_u8 (meta, (guint8) spec->kind);
  put_f64 (meta, spec->learning_rate);
  put_f64 (meta, spec->momentum);
  put_f64 (meta, spec->weight_decay);
  put_f64 (meta, spec->epsilon);
  put_f64 (meta, spec->beta1);
  put_f64 (meta, spec->beta2);
  put_f64 (meta, spec->l1);
  put_f64 (meta, spec->l2);
  put_f64 (meta, spec->beta);
}

static void
put_create (TpsRecordPlan *plan, const TpsTableSpec *spec)
{
  GByteArray *meta = plan->meta;

  put_text (meta, spec->name);
  put_u32 (meta, (guint32) spec->dim);
  put_u8 (meta, (guint8) spec->dtype);
  put_u8 (meta, (guint8) spec->shard.kind);
  put_i64 (meta, spec->shard.rows);
  put_i64 (meta, spec->shard.first_row);
  put_i64 (meta, spec->shard.n_rows);
  put_u32 (meta, (guint32) spec->shard.index);
  put_u32 (meta, (guint32) spec->shard.count);
  put_u8 (meta, (guint8) spec->initializer.kind);
  put_f64 (meta, spec->initializer.low);
  put_f64 (meta, spec->initializer.high);
  put_f64 (meta, spec->initializer.mean);
  put_f64 (meta, spec->initializer.stdev);
  put_i64 (meta, spec->initializer.seed);
  put_optimizer (meta, &spec->optimizer);
  put_text (meta, spec->place.device);
  put_u8 (meta, spec->place.is_host_memory ? PLACE_IS_HOST_MEMORY : 0);
  put_u8 (meta, (guint8) spec->durability);
  if (spec->tenant != NULL)
    put_text (meta, spec->tenant);
}

static void
put_maxima (TpsRecordPlan *plan, const TpsBagGradient *gradient, const gint64 *maxima)
{
  TpsTensorView view = { { TPS_DTYPE_INT64, 2, { 0 } }, maxima };

  if (maxima == NULL)
    view.shape.dtype = 0;
  view.shape.dims[0] = gradient->gradient.shape.dims[0];
  view.shape.dims[1] = gradient->gradient.shape.dims[1];
  put_tensor (plan, view);
}

static void
put_bags (TpsRecordPlan *plan, const TpsCommandBags *bags)
{
  put_u32 (plan->meta, bags->n_gradients);
  for (guint i = 0; i < bags->n_gradients; i++)
    {
      const TpsBagGradient *gradient = &bags->gradients[i];

      put_text (plan->meta, gradient->query.table);
      put_u8 (plan->meta, (guint8) gradient->query.pooling);
      put_tensor (plan, gradient->query.indices);
      put_tensor (plan, gradient->query.offsets);
      put_tensor (plan, gradient->query.weights);
      put_tensor (plan, gradient->gradient);
      put_maxima (plan, gradient, bags->maxima != NULL ? bags->maxima[i] : NULL);
    }
}

static void
put_model (TpsRecordPlan *plan, const TpsCommandModel *model)
{
  put_optimizer (plan->meta, model->optimizer);
  put_u32 (plan->meta, model->n_parameters);
  for (guint i = 0; i < model->n_parameters; i++)
    {
      put_text (plan->meta, model->parameters[i].name);
      put_tensor (plan, tps_tensor_view (&model->parameters[i].tensor));
    }
}

static void
put_update (TpsRecordPlan *plan, const TpsCommandUpdate *update)
{
  put_u32 (plan->meta, update->n_ids);
  for (guint i = 0; i < update->n_ids; i++)
    put_id (plan->meta, &update->ids[i]);
  put_u32 (plan->meta, update->n_parameters);
  put_u32 (plan->meta, update->n_contributions);
  for (guint i = 0; i < update->n_contributions; i++)
    {
      put_u32 (plan->meta, (guint32) update->contributions[i].trainer);
      for (guint p = 0; p < update->n_parameters; p++)
        put_tensor (plan, tps_tensor_view (&update->contributions[i].gradients[p]));
    }
}

static void
put_body (TpsRecordPlan *plan, const TpsCommand *command)
{
  put_id (plan->meta, &command->id);
  put_tables (plan->meta, command);
  switch (command->kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      put_create (plan, command->create);
      break;
    case TPS_COMMAND_DROP_TABLE:
      put_text (plan->meta, command->drop);
      break;
    case TPS_COMMAND_APPLY_ROWS:
      put_tensor (plan, command->rows.indices);
      put_tensor (plan, command->rows.values);
      break;
    case TPS_COMMAND_ASSIGN_ROWS:
      put_tensor (plan, command->rows.indices);
      put_tensor (plan, command->rows.values);
      put_i64 (plan->meta, command->rows.as_of_lsn);
      break;
    case TPS_COMMAND_APPLY_BAGS:
      put_bags (plan, &command->bags);
      break;
    case TPS_COMMAND_INIT_MODEL:
      put_model (plan, &command->model);
      break;
    case TPS_COMMAND_UPDATE_MODEL:
      put_update (plan, &command->update);
      break;
    case TPS_COMMAND_RESET_MODEL:
      break;
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

void
tps_record_plan_init (TpsRecordPlan *plan)
{
  *plan = (TpsRecordPlan) { .meta = g_byte_array_new (),
                            .tensors = g_array_new (FALSE, FALSE, sizeof (TpsTensorView)) };
}

void
tps_record_plan_clear (TpsRecordPlan *plan)
{
  g_byte_array_unref (plan->meta);
  g_array_unref (plan->tensors);
}

static const TpsTensorView *
tensor_at (const TpsRecordPlan *plan, guint i)
{
  return &g_array_index (plan->tensors, TpsTensorView, i);
}

void
tps_record_plan_set (TpsRecordPlan *plan, const TpsCommand *command, gboolean with_body)
{
  g_byte_array_set_size (plan->meta, 0);
  g_array_set_size (plan->tensors, 0);
  plan->lsn = command->lsn;
  plan->kind = with_body ? (guint16) command->kind : RECORD_KIND_HOLE;
  plan->flags = with_body && command->has_failed ? RECORD_HAS_FAILED : 0;
  if (with_body)
    put_body (plan, command);
  plan->n_bytes = TPS_LOG_RECORD_HEADER + align_up (plan->meta->len, TPS_LOG_RECORD_ALIGNMENT);
  for (guint i = 0; i < plan->tensors->len; i++)
    plan->n_bytes += align_up (tps_shape_n_bytes (&tensor_at (plan, i)->shape),
                               TPS_LOG_RECORD_ALIGNMENT);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void
tps_record_encode_begin (TpsRecordPlan *plan)
{
  plan->piece = 0;
  plan->position = 0;
  plan->body_crc = 0;
}

static gconstpointer
get_piece (const TpsRecordPlan *plan, guint piece, gsize *n_bytes)
{
  const TpsTensorView *tensor;

  if (piece == 0)
    {
      *n_bytes = plan->meta->len;
      return plan->meta->data;
    }
  tensor = tensor_at (plan, piece - 1);
  *n_bytes = tps_shape_n_bytes (&tensor->shape);
  return tensor->data;
}

/* Copies bytes [position, position + n_bytes) of a piece that consists of `n_data` bytes and
 * zeros. */
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

gsize
tps_record_encode_some (TpsRecordPlan *plan, guint8 *to, gsize n_bytes)
{
  gsize n_written = 0;

  while (n_written < n_bytes && plan->piece <= plan->tensors->len)
    {
      gsize n_data;
      const guint8 *data = get_piece (plan, plan->piece, &n_data);
      gsize n_padded = align_up (n_data, TPS_LOG_RECORD_ALIGNMENT);
      gsize n_now = MIN (n_padded - plan->position, n_bytes - n_written);

      plan->body_crc = copy_padded (plan->body_crc, to + n_written, data, n_data, plan->position,
                                    n_now);
      n_written += n_now;
      plan->position += n_now;
      if (plan->position == n_padded)
        {
          plan->piece++;
          plan->position = 0;
        }
    }
  return n_written;
}

void
tps_record_encode_end (const TpsRecordPlan *plan, guint8 *header)
{
  RecordHeader record = { .magic = RECORD_MAGIC,
                          .lsn = plan->lsn,
                          .body_bytes = plan->n_bytes - TPS_LOG_RECORD_HEADER,
                          .body_crc = plan->body_crc,
                          .meta_bytes = plan->meta->len,
                          .kind = plan->kind,
                          .flags = plan->flags };

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
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "thriftps log\nversion %d\nid ", TPS_LOG_VERSION);
  for (gsize i = 0; i < sizeof id->bytes; i++)
    g_string_append_printf (text, "%02x", id->bytes[i]);
  g_string_append_c (text, '\n');
  return g_string_free (text, FALSE);
}
