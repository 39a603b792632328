/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as a record of the log, as a segment, and as a batch of records. They must be
 * refused or accepted. An accepted record can be written again as the same record. Checksums and
 * magic numbers are corrected first, because few inputs would pass their checks otherwise.
 *
 * The first byte selects the use. 0 to 8: a body of this kind, whose fields have as many bytes as
 * the second byte says. 9: a batch for a follower. Any other value: a group. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/server/log/log_format.h"
#include "tests/runtime/server/log/log_records.h"
#include "runtime/server/log/log_scan.h"

#define MAX_KIND 8
#define BATCH 9
#define MAX_RECORDS 1000

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t n_bytes);

/* ---- records --------------------------------------------------------------------------------- */

static TpsBuffer *
encode (const TpsCommand *command, TpsRecordHead *record)
{
  TpsRecordPlan plan;
  TpsBuffer *buffer;

  tps_record_plan_set (&plan, command, TRUE);
  buffer = tps_buffer_new (plan.n_bytes);
  tps_record_encode (&plan, tps_buffer_get_data (buffer));
  if (!tps_record_decode_head (tps_buffer_get_data (buffer), record))
    abort ();
  return buffer;
}

/* Encodes an accepted record. It must be accepted again, and then encode to the same bytes. */
static void
check_taken (const TpsRecordDecoder *decoder)
{
  TpsRecordDecoder again;
  TpsRecordHead first_head, second_head;
  TpsBuffer *first = encode (&decoder->command, &first_head);
  TpsBuffer *second;

  tps_record_decoder_init (&again);
  if (!tps_record_decode (&again, &first_head, first, TPS_LOG_RECORD_HEADER, NULL))
    abort ();
  second = encode (&again.command, &second_head);
  if (first_head.body_bytes != second_head.body_bytes
      || memcmp (tps_buffer_get_data (first), tps_buffer_get_data (second),
                 TPS_LOG_RECORD_HEADER + first_head.body_bytes)
             != 0)
    abort ();
  tps_record_decoder_clear (&again);
  tps_buffer_unref (first);
  tps_buffer_unref (second);
}

static void
try_body (guint16 kind, gsize meta_bytes, const guint8 *data, gsize n_bytes)
{
  gsize body_bytes = (n_bytes + TPS_LOG_RECORD_ALIGNMENT - 1) / TPS_LOG_RECORD_ALIGNMENT
                     * TPS_LOG_RECORD_ALIGNMENT;
  TpsRecordHead record = { .lsn = 1,
                           .kind = kind,
                           .body_bytes = body_bytes,
                           .meta_bytes = (guint32) MIN (meta_bytes, n_bytes) };
  TpsBuffer *buffer = tps_buffer_new_zeroed (MAX (body_bytes, 1));
  TpsRecordDecoder decoder;

  memcpy (tps_buffer_get_data (buffer), data, n_bytes);
  tps_record_decoder_init (&decoder);
  if (tps_record_decode (&decoder, &record, buffer, 0, NULL) && !decoder.is_hole)
    check_taken (&decoder);
  tps_record_decoder_clear (&decoder);
  tps_buffer_unref (buffer);
}

/* ---- segments -------------------------------------------------------------------------------- */

typedef struct
{
  TpsDisk base;
  guint8 *image;
  gsize n_bytes;
} ImageDisk;

static TpsDiskFile *
image_open (TpsDisk *disk, const gchar *path, guint flags, GError **error)
{
  TpsDiskFile *file = g_new (TpsDiskFile, 1);

  file->disk = disk;
  return file;
}

static void
image_close (TpsDiskFile *file)
{
  g_free (file);
}

static gint64
image_get_size (TpsDiskFile *file, GError **error)
{
  return (gint64) ((ImageDisk *) file->disk)->n_bytes;
}

static gssize
image_read (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  ImageDisk *disk = (ImageDisk *) file->disk;
  gsize n_read = (gsize) offset < disk->n_bytes ? MIN (n_bytes, disk->n_bytes - (gsize) offset) : 0;

  if (n_read > 0)
    memcpy (data, disk->image + offset, n_read);
  return (gssize) n_read;
}

/* Corrects a header of 64 bytes, whose second word is its CRC (see FORMAT.md). */
static void
put_right (guint8 *header, const gchar *magic)
{
  guint32 crc = 0;

  memcpy (header, magic, 4);
  memcpy (header + 4, &crc, 4);
  crc = tps_crc32c (0, header, 64);
  memcpy (header + 4, &crc, 4);
}

static void
put_body_right (guint8 *record, gsize n_rest)
{
  guint64 body_bytes;
  guint32 crc;

  memcpy (&body_bytes, record + 16, 8);
  if (body_bytes > n_rest)
    return;
  crc = tps_crc32c (0, record + TPS_LOG_RECORD_HEADER, body_bytes);
  memcpy (record + 24, &crc, 4);
}

/* Corrects a group that follows the head of the segment. */
static void
put_group_right (guint8 *group, gsize n_bytes, guint64 stamp)
{
  guint64 offset = TPS_LOG_FIRST_GROUP;
  guint8 *record = group + TPS_LOG_GROUP_HEADER;

  memcpy (group + 8, &stamp, 8);
  memcpy (group + 16, &offset, 8);
  put_right (group, "TPSG");
  put_body_right (record, n_bytes - TPS_LOG_GROUP_HEADER - TPS_LOG_RECORD_HEADER);
  put_right (record, "TPSR");
}

static void
read_segment (TpsDisk *disk, const TpsLogId *id)
{
  TpsSegmentReader reader;
  TpsSegmentVerdict verdict = TPS_SEGMENT_RECORD;
  gint64 n_torn;

  if (tps_segment_reader_open (&reader, disk, "", 1, id, tps_buffer_pool_get_default (), NULL)
      != TPS_SEGMENT_OPENED)
    abort ();
  for (guint i = 0; i < MAX_RECORDS && verdict == TPS_SEGMENT_RECORD; i++)
    verdict = tps_segment_reader_next (&reader, 0, NULL);
  if (verdict == TPS_SEGMENT_END || verdict == TPS_SEGMENT_TORN)
    tps_segment_reader_check_rest (&reader, &n_torn, NULL);
  tps_segment_reader_close (&reader);
}

static void
try_group (const guint8 *data, gsize n_bytes)
{
  TpsSegmentHead head = { .number = 1, .stamp = 77 };
  gsize n_group = (MAX (n_bytes, 1) + TPS_DISK_BLOCK - 1) / TPS_DISK_BLOCK * TPS_DISK_BLOCK;
  ImageDisk disk = { .base = { .open = image_open,
                               .close = image_close,
                               .get_size = image_get_size,
                               .read = image_read },
                     .n_bytes = TPS_LOG_FIRST_GROUP + n_group };

  disk.image = g_malloc0 (disk.n_bytes);
  tps_segment_encode_head (disk.image, &head);
  memcpy (disk.image + TPS_LOG_FIRST_GROUP, data, n_bytes);
  put_group_right (disk.image + TPS_LOG_FIRST_GROUP, n_group, head.stamp);
  read_segment (&disk.base, &head.id);
  g_free (disk.image);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void
try_batch (const guint8 *data, gsize n_bytes)
{
  g_autofree guint8 *batch = g_memdup2 (data, n_bytes);
  TpsLogRecords records;
  TpsLogRecord record;
  gint64 lsn = 1;

  if (n_bytes >= TPS_LOG_RECORD_HEADER)
    {
      memcpy (batch + 8, &lsn, sizeof lsn);
      put_body_right (batch, n_bytes - TPS_LOG_RECORD_HEADER);
      put_right (batch, "TPSR");
    }
  tps_log_records_init (&records, batch, n_bytes, lsn);
  for (guint i = 0; i < MAX_RECORDS; i++)
    if (!tps_log_records_next (&records, &record, NULL) || record.lsn == 0)
      break;
  tps_log_records_clear (&records);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t n_bytes)
{
  if (n_bytes < 2)
    return 0;
  if (data[0] <= MAX_KIND)
    try_body (data[0], data[1], data + 2, n_bytes - 2);
  else if (data[0] == BATCH)
    try_batch (data + 1, n_bytes - 1);
  else
    try_group (data + 1, n_bytes - 1);
  return 0;
}
