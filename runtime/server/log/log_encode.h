/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Encodes commands to the bytes of FORMAT.md.
 *
 *   tps_record_plan_set (&plan, command, TRUE);      the length of the record
 *   tps_record_encode (&plan, buffer + n_used);      the record, checksums included
 *   ...
 *   tps_group_seal (buffer, n_used, &place);         the head of the group, and its padding
 *
 * A record that is longer than the buffer is encoded in parts: tps_record_encode_begin(), _some(),
 * _end().
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/command.h"
#include "runtime/server/log/log_layout.h"

G_BEGIN_DECLS

/* The size of a record, and the command that its bytes come from. A plan allocates no memory,
 * because clients choose the number and the lengths of the parts of a command. */
typedef struct
{
  gint64 lsn;
  guint16 kind;
  guint16 flags;
  gint64 time_ms;
  gsize n_bytes; /* of the record, a multiple of TPS_LOG_RECORD_ALIGNMENT */

  /* Private. */
  const TpsCommand *command; /* borrowed; NULL = a hole */
  gsize n_values;            /* bytes of all values except the elements of tensors */
  gsize position;            /* of tps_record_encode_some(), in the body */
  guint32 body_crc;
} TpsRecordPlan;

/* Plans the record of `command`, which is borrowed until the record has been encoded. Without
 * `with_body` only the LSN is recorded: a hole. */
void tps_record_plan_set (TpsRecordPlan *plan, const TpsCommand *command, gboolean with_body);

/* Writes plan->n_bytes to `to`, which must be aligned to TPS_LOG_RECORD_ALIGNMENT. */
void tps_record_encode (TpsRecordPlan *plan, guint8 *to);

/* As tps_record_encode(), but in parts. The caller must leave space for the header before the first
 * part; _end() fills it in, after _some() has written all parts. The lengths of parts must be
 * multiples of TPS_LOG_RECORD_ALIGNMENT. */
void tps_record_encode_begin (TpsRecordPlan *plan);
/* Writes the next part. Returns the number of bytes written: fewer than `n_bytes` only at the
 * end. */
gsize tps_record_encode_some (TpsRecordPlan *plan, guint8 *to, gsize n_bytes);
void tps_record_encode_end (const TpsRecordPlan *plan, guint8 *header);

/* Returns the number of zero sectors in `data`, whose length must be a multiple of
 * TPS_DISK_SECTOR. */
guint32 tps_group_count_zero_sectors (const guint8 *data, gsize n_bytes);

/* Writes the head of a group, TPS_LOG_GROUP_HEADER bytes at `head`. group->n_zero_sectors must not
 * count the first sector, which has the head. */
void tps_group_encode_head (guint8 *head, const TpsGroupHead *group);

/* Writes the first sector of a segment and clears the rest of its first block. */
void tps_segment_encode_head (guint8 *block, const TpsSegmentHead *segment);

/* Returns the text of the file TPS_LOG_MARKER. The caller frees it with g_free(). */
gchar *tps_log_marker_to_text (const TpsLogId *id);

G_END_DECLS
