/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The bytes of the log, as FORMAT.md describes them. No other code knows them. */

#include "runtime/server/log/log_format.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"

G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

#define SEGMENT_MAGIC G_GUINT64_CONSTANT (0x000a474f4c535054) /* "TPSLOG\n\0" */
#define GROUP_MAGIC 0x47535054u                               /* "TPSG" */
#define RECORD_MAGIC 0x52535054u                              /* "TPSR" */

/* Reserved fields must be zero. The CRC of a header is computed with zero in the CRC field. */
typedef struct
{
  guint64 magic;
  guint32 version;
  guint32 header_crc;
  guint8 log_id[16];
  guint64 number;
  guint64 stamp;
  guint64 reserved[2];
} SegmentHeader;

typedef struct
{
  guint32 magic;
  guint32 header_crc;
  guint64 stamp;
  guint64 offset;
  gint64 first_lsn;
  guint64 n_bytes;
  guint32 n_records;
  guint32 n_zero_sectors;
  guint64 reserved[2];
} GroupHeader;

typedef struct
{
  guint32 magic;
  guint32 header_crc;
  gint64 lsn;
  guint64 body_bytes;
  guint32 body_crc;
  guint32 meta_bytes;
  guint16 kind;
  guint16 flags;
  guint32 epoch;
  gint64 time_ms;
  guint64 reserved[2];
} RecordHeader;

G_STATIC_ASSERT (sizeof (SegmentHeader) == 64);
G_STATIC_ASSERT (sizeof (GroupHeader) == TPS_LOG_GROUP_HEADER);
G_STATIC_ASSERT (sizeof (RecordHeader) == TPS_LOG_RECORD_HEADER);

#define RECORD_KIND_HOLE 0

enum
{
  RECORD_HAS_FAILED = 1 << 0,
  KNOWN_FLAGS = RECORD_HAS_FAILED,
};

/* Flags of one element of a list. */
enum
{
  TABLE_IS_SKIPPED = 1 << 0,
  PLACE_IS_HOST_MEMORY = 1 << 0,
};

#define N_DIGITS 20

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

/* The minimum sizes of elements of lists, in bytes of meta, which is the part of a body with the
 * fields. They bound the memory that a damaged count can cause. */
#define MIN_TEXT 5
#define MIN_TABLE (MIN_TEXT + 8 + 1)
#define MIN_GRADIENT (MIN_TEXT + 1 + 5)
#define MIN_PARAMETER (MIN_TEXT + 1)
#define MIN_ID 1
#define MIN_CONTRIBUTION 4
#define MIN_TENSOR 1

/* A body that is being read. After an error, `is_bad` stays TRUE, and all further values are
 * zero. */
typedef struct
{
  const guint8 *at, *end; /* of meta */
  gboolean is_bad;
  const gchar *max_table; /* has a gradient with pooling MAX; NULL = there is none */
  TpsBuffer *buffer;
  gsize tensor, tensors_end; /* offsets in the buffer */
  TpsRecordDecoder *decoder;
} Body;

/* Returns `n_bytes` rounded up to a multiple of `alignment`, which must be a power of two. */
static inline gsize
align_up (gsize n_bytes, gsize alignment)
{
  return (n_bytes + alignment - 1) & ~(alignment - 1);
}

void
tps_log_id_draw (TpsLogId *id)
{
  for (gsize i = 0; i < sizeof id->bytes; i++)
    id->bytes[i] = (guint8) g_random_int_range (0, 256);
}

gchar *
tps_log_id_to_text (const TpsLogId *id)
{
  GString *text = g_string_sized_new (TPS_LOG_ID_DIGITS);

  for (gsize i = 0; i < sizeof id->bytes; i++)
    g_string_append_printf (text, "%02x", id->bytes[i]);
  return g_string_free (text, FALSE);
}

gboolean
tps_log_id_parse (const gchar *text, TpsLogId *id)
{
  if (strlen (text) != TPS_LOG_ID_DIGITS || strspn (text, "0123456789abcdef") != TPS_LOG_ID_DIGITS)
    return FALSE;
  for (gsize i = 0; i < sizeof id->bytes; i++)
    id->bytes[i] = (guint8) (g_ascii_xdigit_value (text[2 * i]) << 4
                             | g_ascii_xdigit_value (text[2 * i + 1]));
  return TRUE;
}

gchar *
tps_log_segment_name (guint64 number)
{
  return g_strdup_printf ("%0*" G_GUINT64_FORMAT TPS_LOG_SUFFIX, N_DIGITS, number);
}

guint64
tps_log_segment_number (const gchar *name)
{
  guint64 number;

  if (strlen (name) != N_DIGITS + strlen (TPS_LOG_SUFFIX)
      || strcmp (name + N_DIGITS, TPS_LOG_SUFFIX) != 0 || strspn (name, "0123456789") != N_DIGITS)
    return 0;
  number = g_ascii_strtoull (name, NULL, 10);
  return number < G_MAXUINT64 ? number : 0; /* G_MAXUINT64 = an overflow */
}

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

#define DEFINE_PUT(name, Type)                    \
  static void put_##name (Walk *walk, Type value) \
  {                                               \
    put (walk, &value, sizeof value);             \
  }

DEFINE_PUT (u8, guint8)
DEFINE_PUT (u32, guint32)
DEFINE_PUT (i64, gint64)
DEFINE_PUT (f64, gdouble)

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

void
tps_record_plan_set (TpsRecordPlan *plan, const TpsCommand *command, gboolean with_body)
{
  Walk walk = { .kind = WALK_COUNT };

  *plan = (TpsRecordPlan) {
    .lsn = command->lsn,
    .kind = with_body ? (guint16) command->kind : RECORD_KIND_HOLE,
    .flags = with_body && command->has_failed ? RECORD_HAS_FAILED : 0,
    .moment = command->moment,
    .command = with_body ? command : NULL,
  };
  if (with_body)
    put_body (&walk, command);
  plan->n_values = walk.position;
  plan->n_bytes = TPS_LOG_RECORD_HEADER + align_up (plan->n_values, TPS_LOG_RECORD_ALIGNMENT)
                  + walk.n_elems_bytes;
}

void
tps_record_encode_begin (TpsRecordPlan *plan)
{
  plan->position = 0;
  plan->body_crc = 0;
}

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
                          .epoch = plan->moment.epoch,
                          .time_ms = plan->moment.time_ms };

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

/* Returns TRUE if the checksum of the header is correct. `crc` must point to the field of `header`
 * with the checksum, which becomes zero. */
static gboolean
check_header (gconstpointer header, gsize n_bytes, guint32 *crc)
{
  guint32 said = *crc;

  *crc = 0;
  return tps_crc32c (0, header, n_bytes) == said;
}

static gboolean
is_zero (const guint8 *data, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    if (data[i] != 0)
      return FALSE;
  return TRUE;
}

TpsHeadVerdict
tps_segment_decode_head (const guint8 *sector, TpsSegmentHead *segment, guint32 *version)
{
  SegmentHeader header;

  memcpy (&header, sector, sizeof header);
  if (is_zero (sector, TPS_DISK_SECTOR))
    return TPS_HEAD_EMPTY;
  if (header.magic != SEGMENT_MAGIC || !check_header (&header, sizeof header, &header.header_crc))
    return TPS_HEAD_DAMAGED;
  *version = header.version;
  memcpy (segment->id.bytes, header.log_id, sizeof segment->id.bytes);
  segment->number = header.number;
  segment->stamp = header.stamp;
  return TPS_HEAD_OK;
}

static gboolean
is_possible_group (const GroupHeader *header)
{
  return header->n_bytes >= TPS_DISK_BLOCK && header->n_bytes % TPS_DISK_BLOCK == 0
         && header->n_bytes <= G_MAXINT64 - header->offset && header->first_lsn > 0
         && header->first_lsn <= TPS_MAX_COUNT && header->n_records > 0;
}

TpsHeadVerdict
tps_group_decode_head (const guint8 *sector, guint64 stamp, gint64 offset, TpsGroupHead *group)
{
  GroupHeader header;

  memcpy (&header, sector, sizeof header);
  if (is_zero (sector, TPS_DISK_SECTOR))
    return TPS_HEAD_EMPTY;
  if (header.magic != GROUP_MAGIC || !check_header (&header, sizeof header, &header.header_crc))
    return TPS_HEAD_DAMAGED;
  if (header.stamp != stamp || header.offset != (guint64) offset)
    return TPS_HEAD_FOREIGN;
  if (!is_possible_group (&header))
    return TPS_HEAD_DAMAGED;
  *group = (TpsGroupHead) { .stamp = header.stamp,
                            .offset = (gint64) header.offset,
                            .n_bytes = (gint64) header.n_bytes,
                            .first_lsn = header.first_lsn,
                            .n_records = header.n_records,
                            .n_zero_sectors = header.n_zero_sectors };
  return TPS_HEAD_OK;
}

gboolean
tps_record_decode_head (const guint8 *bytes, TpsRecordHead *record)
{
  RecordHeader header;

  memcpy (&header, bytes, sizeof header);
  if (header.magic != RECORD_MAGIC || !check_header (&header, sizeof header, &header.header_crc)
      || header.lsn <= 0 || header.lsn > TPS_MAX_COUNT || header.body_bytes > G_MAXINT64
      || header.body_bytes % TPS_LOG_RECORD_ALIGNMENT != 0 || header.meta_bytes > header.body_bytes)
    return FALSE;
  *record = (TpsRecordHead) { .lsn = header.lsn,
                              .moment = { header.epoch, header.time_ms },
                              .kind = header.kind,
                              .flags = header.flags,
                              .body_bytes = header.body_bytes,
                              .body_crc = header.body_crc,
                              .meta_bytes = header.meta_bytes };
  return TRUE;
}

const gchar *
tps_command_kind_name (guint kind)
{
  static const gchar *const names[] = {
    [TPS_COMMAND_CREATE_TABLE] = "create_table", [TPS_COMMAND_DROP_TABLE] = "drop_table",
    [TPS_COMMAND_APPLY_ROWS] = "apply_rows",     [TPS_COMMAND_APPLY_BAGS] = "apply_bags",
    [TPS_COMMAND_INIT_MODEL] = "init_model",     [TPS_COMMAND_UPDATE_MODEL] = "update_model",
    [TPS_COMMAND_RESET_MODEL] = "reset_model",   [TPS_COMMAND_ASSIGN_ROWS] = "assign_rows",
  };

  return kind < G_N_ELEMENTS (names) ? names[kind] : NULL;
}

gboolean
tps_moment_may_follow (const TpsMoment *moment, const TpsMoment *earlier)
{
  return moment->epoch >= earlier->epoch
         && (earlier->epoch == 0 || moment->time_ms >= earlier->time_ms);
}

gboolean
tps_record_check_body (const TpsRecordHead *record, const guint8 *body)
{
  TPS_PLANT ("torn-tail-accepted", return TRUE);
  return tps_crc32c (0, body, record->body_bytes) == record->body_crc;
}

static gsize
get_rest (const Body *body)
{
  return body->is_bad ? 0 : (gsize) (body->end - body->at);
}

static void
get (Body *body, gpointer value, gsize n_bytes)
{
  if (get_rest (body) < n_bytes)
    {
      body->is_bad = TRUE;
      memset (value, 0, n_bytes);
      return;
    }
  memcpy (value, body->at, n_bytes);
  body->at += n_bytes;
}

#define DEFINE_GET(name, Type)        \
  static Type get_##name (Body *body) \
  {                                   \
    Type value;                       \
                                      \
    get (body, &value, sizeof value); \
    return value;                     \
  }

DEFINE_GET (u8, guint8)
DEFINE_GET (u32, guint32)
DEFINE_GET (i64, gint64)
DEFINE_GET (f64, gdouble)

static const gchar *
get_text (Body *body)
{
  gsize length = get_u32 (body);
  const gchar *text = (const gchar *) body->at;

  if (get_rest (body) <= length || text[length] != '\0' || memchr (text, '\0', length) != NULL)
    {
      body->is_bad = TRUE;
      return "";
    }
  body->at += length + 1;
  return text;
}

/* Reads the number of elements of a list, each of which needs at least `min_bytes` of meta. */
static guint
get_count (Body *body, gsize min_bytes)
{
  guint count = get_u32 (body);

  if (count > get_rest (body) / min_bytes)
    {
      body->is_bad = TRUE;
      return 0;
    }
  return count;
}

/* Makes a list of zeros; NULL if `count` is 0. The list lives until the next record is decoded. */
static gpointer
new_list (Body *body, gsize count, gsize element_bytes)
{
  gpointer list;

  if (count == 0)
    return NULL;
  list = g_malloc0_n (count, element_bytes);
  g_ptr_array_add (body->decoder->allocations, list);
  return list;
}

static gboolean
get_shape (Body *body, TpsShape *shape)
{
  gint dtype = get_u8 (body);
  gint64 dims[TPS_TENSOR_MAX_DIMS] = { 0 };
  guint n_dims;

  *shape = (TpsShape) { 0 };
  if (dtype == 0)
    return FALSE;
  n_dims = get_u8 (body);
  if (n_dims > TPS_TENSOR_MAX_DIMS)
    body->is_bad = TRUE;
  for (guint i = 0; i < n_dims && !body->is_bad; i++)
    dims[i] = get_i64 (body);
  if (!body->is_bad && !tps_shape_init (shape, dtype, n_dims, dims, "a tensor", NULL))
    body->is_bad = TRUE;
  return !body->is_bad;
}

/* Reads a tensor, whose elements stay in the buffer. dtype 0: there is no tensor. */
static TpsTensor
get_owned (Body *body)
{
  TpsTensor tensor = { 0 };
  gsize n_bytes;

  if (!get_shape (body, &tensor.shape))
    return (TpsTensor) { 0 };
  n_bytes = tps_shape_n_bytes (&tensor.shape);
  if (n_bytes > body->tensors_end - body->tensor)
    {
      body->is_bad = TRUE;
      return (TpsTensor) { 0 };
    }
  tensor.buffer = body->buffer;
  tensor.offset = body->tensor;
  /* This cannot exceed `tensors_end`, because both are aligned relative to the body. */
  body->tensor += align_up (n_bytes, TPS_LOG_RECORD_ALIGNMENT);
  return tensor;
}

static TpsTensorView
get_view (Body *body)
{
  TpsTensor tensor = get_owned (body);

  return tensor.buffer != NULL ? tps_tensor_view (&tensor) : (TpsTensorView) { 0 };
}

/* Reads a tensor that must have `dtype` (0 = any) and `n_dims` dimensions. */
static TpsTensorView
get_view_of (Body *body, TpsDType dtype, guint n_dims)
{
  TpsTensorView view = get_view (body);

  body->is_bad |= view.shape.dtype == 0 || view.shape.n_dims != n_dims
                  || (dtype != 0 && view.shape.dtype != dtype);
  return view;
}

static TpsCommandId
get_id (Body *body)
{
  TpsCommandId id = { 0 };
  guint kind = get_u8 (body);

  body->is_bad |= kind > 2;
  if (kind == 0)
    return id;
  id.client = get_text (body);
  id.sequence = get_i64 (body);
  get (body, id.digest.bytes, sizeof id.digest.bytes);
  if (kind == 2)
    id.tenant = get_text (body);
  return id;
}

static void
get_tables (Body *body, TpsCommand *command)
{
  TpsCommandTable *tables;

  command->n_tables = get_count (body, MIN_TABLE);
  tables = new_list (body, command->n_tables, sizeof *tables);
  for (guint i = 0; i < command->n_tables; i++)
    {
      tables[i].name = get_text (body);
      tables[i].incarnation = get_i64 (body);
      tables[i].is_skipped = (get_u8 (body) & TABLE_IS_SKIPPED) != 0;
    }
  command->tables = tables;
}

static TpsOptimizerSpec
get_optimizer (Body *body)
{
  TpsOptimizerSpec spec = { 0 };

  spec.kind = get_u8 (body);
  for (guint i = 0; i < TPS_OPTIMIZER_N_NUMBERS; i++)
    *tps_optimizer_spec_number (&spec, i) = get_f64 (body);
  body->is_bad |= tps_optimizer_kind_name (spec.kind) == NULL;
  return spec;
}

/* Reads the last two fields, which may be missing. */
static void
get_optional (Body *body, TpsTableSpec *spec)
{
  const gchar *tenant = get_rest (body) > 0 ? get_text (body) : "";

  if (tenant[0] != '\0')
    spec->tenant = (gchar *) (gsize) tenant; /* never written */
  if (get_rest (body) > 0)
    spec->rounding = get_u8 (body);
}

static void
get_create (Body *body, TpsCommand *command)
{
  TpsTableSpec *spec = new_list (body, 1, sizeof *spec);

  spec->name = (gchar *) (gsize) get_text (body); /* never written */
  spec->dim = (gint32) get_u32 (body);
  spec->dtype = get_u8 (body);
  spec->shard.kind = get_u8 (body);
  spec->shard.rows = get_i64 (body);
  spec->shard.first_row = get_i64 (body);
  spec->shard.n_rows = get_i64 (body);
  spec->shard.index = (gint32) get_u32 (body);
  spec->shard.count = (gint32) get_u32 (body);
  spec->initializer.kind = get_u8 (body);
  spec->initializer.low = get_f64 (body);
  spec->initializer.high = get_f64 (body);
  spec->initializer.mean = get_f64 (body);
  spec->initializer.stdev = get_f64 (body);
  spec->initializer.seed = get_i64 (body);
  spec->optimizer = get_optimizer (body);
  g_strlcpy (spec->place.device, get_text (body), sizeof spec->place.device);
  spec->place.is_host_memory = (get_u8 (body) & PLACE_IS_HOST_MEMORY) != 0;
  spec->durability = get_u8 (body);
  get_optional (body, spec);
  if (!body->is_bad && !tps_table_spec_resolve (spec, NULL))
    body->is_bad = TRUE;
  command->create = spec;
}

static void
get_rows (Body *body, TpsCommand *command)
{
  TpsCommandRows rows = { get_view_of (body, TPS_DTYPE_INT64, 1), get_view_of (body, 0, 2) };

  body->is_bad |= command->n_tables != 1 || rows.values.shape.dims[0] != rows.indices.shape.dims[0];
  command->rows = rows;
}

static void
get_bag_gradient (Body *body, TpsBagGradient *gradient)
{
  TpsBagQuery *query = &gradient->query;

  query->table = get_text (body);
  query->pooling = get_u8 (body);
  query->indices = get_view_of (body, TPS_DTYPE_INT64, 1);
  query->offsets = get_view_of (body, TPS_DTYPE_INT64, 1);
  query->weights = get_view (body);
  gradient->gradient = get_view_of (body, TPS_DTYPE_FLOAT32, 2);
  if (!body->is_bad && query->pooling == TPS_POOLING_MAX)
    body->max_table = query->table;
  body->is_bad |= get_u8 (body) != 0 || !tps_bag_query_check (query, "", NULL)
                  || gradient->gradient.shape.dims[0] != query->offsets.shape.dims[0];
}

static void
get_bags (Body *body, TpsCommand *command)
{
  guint n = get_count (body, MIN_GRADIENT);
  TpsBagGradient *gradients = new_list (body, n, sizeof *gradients);

  for (guint i = 0; i < n && !body->is_bad; i++)
    get_bag_gradient (body, &gradients[i]);
  command->bags = (TpsCommandBags) { n, gradients };
}

static void
get_model (Body *body, TpsCommand *command)
{
  TpsOptimizerSpec *optimizer = new_list (body, 1, sizeof *optimizer);
  TpsNamedTensor *parameters;
  guint n;

  *optimizer = get_optimizer (body);
  n = get_count (body, MIN_PARAMETER);
  parameters = new_list (body, n, sizeof *parameters);
  for (guint i = 0; i < n && !body->is_bad; i++)
    {
      parameters[i].name = (gchar *) (gsize) get_text (body); /* never written */
      parameters[i].tensor = get_owned (body);
      body->is_bad |= tps_tensor_is_empty (&parameters[i].tensor);
    }
  command->model = (TpsCommandModel) { n, parameters, optimizer };
}

static const TpsTensor *
get_gradients (Body *body, guint n)
{
  TpsTensor *gradients = n <= get_rest (body) / MIN_TENSOR ? new_list (body, n, sizeof *gradients)
                                                           : NULL;

  body->is_bad |= gradients == NULL;
  for (guint i = 0; i < n && !body->is_bad; i++)
    {
      gradients[i] = get_owned (body);
      body->is_bad |= tps_tensor_is_empty (&gradients[i]);
    }
  return gradients;
}

static void
get_update (Body *body, TpsCommand *command)
{
  TpsCommandUpdate *update = &command->update;
  TpsCommandContribution *contributions;
  TpsCommandId *ids;

  update->n_ids = get_count (body, MIN_ID);
  ids = new_list (body, update->n_ids, sizeof *ids);
  for (guint i = 0; i < update->n_ids && !body->is_bad; i++)
    ids[i] = get_id (body);
  update->ids = ids;
  update->n_parameters = get_u32 (body);
  update->n_contributions = get_count (body, MIN_CONTRIBUTION);
  contributions = new_list (body, update->n_contributions, sizeof *contributions);
  for (guint i = 0; i < update->n_contributions && !body->is_bad; i++)
    {
      contributions[i].trainer = (gint32) get_u32 (body);
      body->is_bad |= contributions[i].trainer < 0;
      contributions[i].gradients = get_gradients (body, update->n_parameters);
    }
  update->contributions = contributions;
}

static void
get_command (Body *body, TpsCommand *command)
{
  command->id = get_id (body);
  get_tables (body, command);
  switch (command->kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      get_create (body, command);
      return;
    case TPS_COMMAND_DROP_TABLE:
      command->drop = get_text (body);
      return;
    case TPS_COMMAND_APPLY_ROWS:
      get_rows (body, command);
      return;
    case TPS_COMMAND_ASSIGN_ROWS:
      get_rows (body, command);
      command->rows.as_of_lsn = get_i64 (body);
      return;
    case TPS_COMMAND_APPLY_BAGS:
      get_bags (body, command);
      return;
    case TPS_COMMAND_INIT_MODEL:
      get_model (body, command);
      return;
    case TPS_COMMAND_UPDATE_MODEL:
      get_update (body, command);
      return;
    case TPS_COMMAND_RESET_MODEL:
      return;
    }
}

void
tps_record_decoder_init (TpsRecordDecoder *decoder)
{
  *decoder = (TpsRecordDecoder) { .allocations = g_ptr_array_new_with_free_func (g_free) };
}

void
tps_record_decoder_clear (TpsRecordDecoder *decoder)
{
  g_ptr_array_unref (decoder->allocations);
}

/* Refuses a record whose kind or flags a later version has introduced. The fields of such a kind
 * begin with its name, in small letters. */
static gboolean
refuse_unknown (const TpsRecordHead *record, Body *body, GError **error)
{
  const gchar *known = record->kind == RECORD_KIND_HOLE ? "hole"
                                                        : tps_command_kind_name (record->kind);
  const gchar *name = known != NULL ? known : get_text (body);

  if (name[strspn (name, "abcdefghijklmnopqrstuvwxyz_")] != '\0')
    name = "";
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "the record has kind %u (%s) and flags %u, which this version does not know: start "
      "the version that wrote the log, or a later one",
      record->kind, name[0] != '\0' ? name : "unnamed", record->flags);
}

gboolean
tps_record_decode (TpsRecordDecoder *decoder, const TpsRecordHead *record, TpsBuffer *buffer,
                   gsize offset, GError **error)
{
  gsize meta_end = offset + align_up (record->meta_bytes, TPS_LOG_RECORD_ALIGNMENT);
  Body body = { .buffer = buffer,
                .tensor = meta_end,
                .tensors_end = offset + record->body_bytes,
                .decoder = decoder };

  body.at = (const guint8 *) tps_buffer_get_data (buffer) + offset;
  body.end = body.at + record->meta_bytes;
  g_ptr_array_set_size (decoder->allocations, 0);
  decoder->command = (TpsCommand) { .lsn = record->lsn,
                                    .moment = record->moment,
                                    .kind = record->kind,
                                    .has_failed = (record->flags & RECORD_HAS_FAILED) != 0 };
  decoder->is_hole = record->kind == RECORD_KIND_HOLE;
  if ((!decoder->is_hole && tps_command_kind_name (record->kind) == NULL)
      || (record->flags & ~KNOWN_FLAGS) != 0)
    return refuse_unknown (record, &body, error);
  if (!decoder->is_hole)
    get_command (&body, &decoder->command);
  if (body.max_table != NULL)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "the record has a gradient of table %s with pooling MAX, which only earlier "
        "versions apply: start the version that wrote the log, take a snapshot, and then "
        "start this version, which reads only the records after the snapshot",
        body.max_table);
  if (!body.is_bad && body.at == body.end && body.tensor == body.tensors_end)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "a record of kind %u with %u bytes of fields and %" G_GSIZE_FORMAT
                   " in all cannot be decoded",
                   record->kind, record->meta_bytes, record->body_bytes);
}

gboolean
tps_log_marker_parse (const gchar *text, TpsLogId *id, guint *version)
{
  gchar hex[TPS_LOG_ID_DIGITS + 1];
  gint end = 0;

  if (sscanf (text, "thriftps log\nversion %u\n%n", version, &end) != 1 || end == 0)
    return FALSE;
  if (*version != TPS_LOG_VERSION)
    return TRUE;
  text += end;
  end = 0;
  return sscanf (text, "id %32[0-9a-f]\n%n", hex, &end) == 1 && end > 0 && text[end] == '\0'
         && tps_log_id_parse (hex, id);
}
