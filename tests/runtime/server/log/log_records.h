/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Iterates over the records of a batch that a follower has received. The bytes may be hostile.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/log/log.h"
#include "runtime/server/log/log_format.h"

G_BEGIN_DECLS

typedef struct
{
  /* Private. */
  TpsBuffer *buffer; /* a view of the batch, or an aligned copy */
  gsize offset;
  gint64 lsn;       /* of the next record */
  TpsMoment moment; /* of the last record */
  TpsRecordDecoder decoder;
} TpsLogRecords;

/* Begins before the first record of `data`, which is borrowed until tps_log_records_clear(). `lsn`
 * is the expected LSN of the first record. */
void tps_log_records_init (TpsLogRecords *records, gconstpointer data, gsize n_bytes, gint64 lsn);
void tps_log_records_clear (TpsLogRecords *records);

/* Decodes the next record, borrowed until the next call, and checks both of its checksums. At the
 * end, `record->lsn` is 0. Errors: ABORTED (damaged, cut short, or with an unexpected LSN). */
gboolean tps_log_records_next (TpsLogRecords *records, TpsLogRecord *record, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLogRecords, tps_log_records_clear)

G_END_DECLS
