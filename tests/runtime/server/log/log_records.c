/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/log/log_records.h"

#include <string.h>

#include "runtime/base/error.h"

/* Returns a buffer with the bytes of the batch at an aligned address, because the tensors of a
 * record must also be aligned in memory. Copies the bytes only if necessary. */
static TpsBuffer *
align (gconstpointer data, gsize n_bytes)
{
  TpsBuffer *copy;

  if ((gsize) data % TPS_LOG_RECORD_ALIGNMENT == 0)
    return tps_buffer_new_foreign ((gpointer) (gsize) data, n_bytes, NULL, NULL, NULL);
  copy = tps_buffer_new (n_bytes);
  memcpy (tps_buffer_get_data (copy), data, n_bytes);
  return copy;
}

void
tps_log_records_init (TpsLogRecords *records, gconstpointer data, gsize n_bytes, gint64 lsn)
{
  *records = (TpsLogRecords) { .buffer = align (data, n_bytes), .lsn = lsn };
  tps_record_decoder_init (&records->decoder);
}

void
tps_log_records_clear (TpsLogRecords *records)
{
  if (records->buffer == NULL)
    return;
  tps_record_decoder_clear (&records->decoder);
  g_clear_pointer (&records->buffer, tps_buffer_unref);
}

static gboolean
refuse (const TpsLogRecords *records, const gchar *what, GError **error)
{
  return tps_fail (error, TPS_ERROR_ABORTED, "LSN %" G_GINT64_FORMAT " of the batch: %s",
                   records->lsn, what);
}

gboolean
tps_log_records_next (TpsLogRecords *records, TpsLogRecord *record, GError **error)
{
  const guint8 *head = tps_buffer_get_data (records->buffer) + records->offset;
  gsize n_left = tps_buffer_get_size (records->buffer) - records->offset;
  TpsRecordHead decoded;

  *record = (TpsLogRecord) { 0 };
  if (n_left == 0)
    return TRUE;
  if (n_left < TPS_LOG_RECORD_HEADER || !tps_record_decode_head (head, &decoded))
    return refuse (records, "the head of the record is damaged", error);
  if (decoded.lsn != records->lsn)
    return refuse (records, "the record has an unexpected LSN", error);
  if (!tps_moment_may_follow (&decoded.moment, &records->moment))
    return refuse (records, "the epoch or the time is lower than in the record before", error);
  if (decoded.body_bytes > n_left - TPS_LOG_RECORD_HEADER)
    return refuse (records, "the record is cut short", error);
  if (!tps_record_check_body (&decoded, head + TPS_LOG_RECORD_HEADER))
    return refuse (records, "the checksum of the record is wrong", error);
  if (!tps_record_decode (&records->decoder, &decoded, records->buffer,
                          records->offset + TPS_LOG_RECORD_HEADER, error))
    return FALSE;
  *record = (TpsLogRecord) {
    .lsn = decoded.lsn,
    .moment = decoded.moment,
    .command = records->decoder.is_hole ? NULL : &records->decoder.command,
    .n_bytes = TPS_LOG_RECORD_HEADER + decoded.body_bytes,
  };
  records->offset += record->n_bytes;
  records->lsn++;
  records->moment = record->moment;
  return TRUE;
}
