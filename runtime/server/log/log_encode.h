/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Commands as the bytes of FORMAT.md.
 *
 *   tps_record_plan_set (&plan, command, TRUE);      how long the record is, and what it consists
 *                                                    of
 *   tps_record_encode (&plan, buffer + n_used);      the record, checksums included
 *   ...
 *   tps_group_seal (buffer, n_used, &place);         the head of the group, and its padding
 *
 * A record that is longer than the buffer is encoded in parts: tps_record_encode_begin(),
 * _some(), _end().
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/command.h"
#include "runtime/server/log/log_layout.h"

G_BEGIN_DECLS

/* What a record consists of. Reused from record to record. */
typedef struct
{
  gint64 lsn;
  guint16 kind;
  guint16 flags;
  gsize n_bytes;    /* of the record, a multiple of TPS_LOG_RECORD_ALIGNMENT */
  GByteArray *meta; /* what is not a tensor */
  GArray *tensors;  /* of TpsTensorView, borrowed from the command */

  /* Private: where tps_record_encode_some() is. */
  guint piece; /* 0 = meta; then the tensors */
  gsize position;
  guint32 body_crc;
} TpsRecordPlan;

void tps_record_plan_init (TpsRecordPlan *plan);
void tps_record_plan_clear (TpsRecordPlan *plan);

/* Plans the record of `command`, which is borrowed until the record has been encoded. Without
 * `with_body` only the LSN is recorded: a hole. */
void tps_record_plan_set (TpsRecordPlan *plan, const TpsCommand *command, gboolean with_body);

/* Writes plan->n_bytes to `to`, which is aligned to TPS_LOG_RECORD_ALIGNMENT. */
void tps_record_encode (TpsRecordPlan *plan, guint8 *to);

/* The same in parts: space for the header comes first and is filled in by _end(), when
 * everything has been written by _some(). Parts are multiples of TPS_LOG_RECORD_ALIGNMENT. */
void tps_record_encode_begin (TpsRecordPlan *plan);
/* Returns how many bytes it wrote: fewer than `n_bytes` at the end only. */
gsize tps_record_encode_some (TpsRecordPlan *plan, guint8 *to, gsize n_bytes);
void tps_record_encode_end (const TpsRecordPlan *plan, guint8 *header);

/* Zero sectors in `data`, a multiple of TPS_DISK_SECTOR long. */
guint32 tps_group_count_zero_sectors (const guint8 *data, gsize n_bytes);

/* Fills in the head of a group, TPS_LOG_GROUP_HEADER bytes at `head`. `n_zero_sectors` counts
 * those of the rest of the group: its first sector has its head. */
void tps_group_encode_head (guint8 *head, const TpsGroupHead *group);

/* Fills in the first sector of a segment and clears the rest of its first block. */
void tps_segment_encode_head (guint8 *block, const TpsSegmentHead *segment);

/* The text of the file TPS_LOG_MARKER. g_free(). */
gchar *tps_log_marker_to_text (const TpsLogId *id);

G_END_DECLS
