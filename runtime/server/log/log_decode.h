/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Decodes the bytes of FORMAT.md to commands. The functions accept any bytes: they never read
 * beyond the given bytes, and allocate memory only in proportion to their number.
 *
 * Thread: any; a decoder must be used by one thread at a time.
 */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/server/command.h"
#include "runtime/server/log/log_layout.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_HEAD_OK = 1,
  TPS_HEAD_EMPTY,   /* the sector is zero: never written, or lost before it was synced */
  TPS_HEAD_FOREIGN, /* intact, but of a different place: a remainder of older contents */
  TPS_HEAD_DAMAGED,
} TpsHeadVerdict;

/* Decodes `sector`, the first TPS_DISK_SECTOR bytes of a segment. A segment of a different version
 * is OK if its checksum is correct. */
TpsHeadVerdict tps_segment_decode_head (const guint8 *sector, TpsSegmentHead *segment,
                                        guint32 *version);

/* Decodes `sector`, the first TPS_DISK_SECTOR bytes at `offset` of a segment with `stamp`. */
TpsHeadVerdict tps_group_decode_head (const guint8 *sector, guint64 stamp, gint64 offset,
                                      TpsGroupHead *group);

typedef struct
{
  gint64 lsn;
  gint64 time_ms; /* 0 = unknown */
  guint16 kind;
  guint16 flags;
  gsize body_bytes; /* the next record begins after them */
  guint32 body_crc;
  guint32 meta_bytes;
} TpsRecordHead;

/* Decodes `bytes`, TPS_LOG_RECORD_HEADER of them. FALSE: they are damaged. */
gboolean tps_record_decode_head (const guint8 *bytes, TpsRecordHead *record);

/* Returns TRUE if record->body_bytes at `body` have the checksum record->body_crc. */
gboolean tps_record_check_body (const TpsRecordHead *record, const guint8 *body);

/* A decoded record with its additional memory. Reused from record to record. */
typedef struct
{
  TpsCommand command;
  gboolean is_hole;       /* `command` has only its LSN */
  GPtrArray *allocations; /* lists to which `command` refers */
} TpsRecordDecoder;

/* Makes a decoder without a record, in the caller's storage. */
void tps_record_decoder_init (TpsRecordDecoder *decoder);
void tps_record_decoder_clear (TpsRecordDecoder *decoder);

/* Decodes a body at `offset` of `buffer`. The command consists of views into the buffer, which must
 * stay until the next call. Tensors of models refer to the buffer, so that references to them may
 * be taken. Errors: ABORTED, which names the inconsistency (if the checksum is correct, a different
 * program has written the bytes); INVALID_ARGUMENT for a record of an earlier version that this
 * version cannot apply. */
gboolean tps_record_decode (TpsRecordDecoder *decoder, const TpsRecordHead *record,
                            TpsBuffer *buffer, gsize offset, GError **error);

/* Parses the text of the file TPS_LOG_MARKER. `id` is filled in for TPS_LOG_VERSION only. FALSE:
 * the text is not that of a marker. */
gboolean tps_log_marker_parse (const gchar *text, TpsLogId *id, guint *version);

G_END_DECLS
