/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The bytes of FORMAT.md as commands. Any bytes may be given to these functions: nothing beyond
 * them is read, and no more memory is taken than in proportion to them.
 *
 * Thread: any; a decoder is used by one thread at a time.
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
  TPS_HEAD_FOREIGN, /* intact, but of another place: a remainder of other contents */
  TPS_HEAD_DAMAGED,
} TpsHeadVerdict;

/* `sector`: the first TPS_DISK_SECTOR bytes of a segment. A segment of another version is OK if
 * its checksum is. */
TpsHeadVerdict tps_segment_decode_head (const guint8 *sector, TpsSegmentHead *segment,
                                        guint32 *version);

/* `sector`: the first TPS_DISK_SECTOR bytes at `offset` of a segment with `stamp`. */
TpsHeadVerdict tps_group_decode_head (const guint8 *sector, guint64 stamp, gint64 offset,
                                      TpsGroupHead *group);

typedef struct
{
  gint64 lsn;
  guint16 kind;
  guint16 flags;
  gsize body_bytes; /* the next record begins behind them */
  guint32 body_crc;
  guint32 meta_bytes;
} TpsRecordHead;

/* Reads TPS_LOG_RECORD_HEADER of `bytes`. FALSE: they are damaged. */
gboolean tps_record_decode_head (const guint8 *bytes, TpsRecordHead *record);

/* Whether head->body_bytes at `body` have the checksum that the head says. */
gboolean tps_record_check_body (const TpsRecordHead *record, const guint8 *body);

/* A decoded record with what it needs besides the bytes. Reused from record to record. */
typedef struct
{
  TpsCommand command;
  gboolean is_hole;       /* `command` has its LSN only */
  GPtrArray *allocations; /* lists that `command` refers to */
} TpsRecordDecoder;

void tps_record_decoder_init (TpsRecordDecoder *decoder);
void tps_record_decoder_clear (TpsRecordDecoder *decoder);

/* Decodes a body that lies at `offset` of `buffer`. The command is made of views into the
 * buffer, which must stay until the next call; tensors of models name the buffer, so that
 * holders may take references. Errors: ABORTED, which says what does not fit together (bytes
 * whose checksum is right were written by another program then). */
gboolean tps_record_decode (TpsRecordDecoder *decoder, const TpsRecordHead *record,
                            TpsBuffer *buffer, gsize offset, GError **error);

/* FALSE: the text is not that of TPS_LOG_MARKER. `id` is filled in for TPS_LOG_VERSION only. */
gboolean tps_log_marker_parse (const gchar *text, TpsLogId *id, guint *version);

G_END_DECLS
