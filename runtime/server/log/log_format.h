/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The format of the log (FORMAT.md): sizes, names and heads, which its writers and readers share;
 * commands as bytes, and back.
 *
 *   tps_record_plan_set (&plan, command, TRUE);      the length of the record
 *   tps_record_encode (&plan, buffer + n_used);      the record, checksums included
 *   ...
 *   tps_group_encode_head (buffer, &group);          the head of the group
 *
 * A record that is longer than the buffer is encoded in parts: tps_record_encode_begin(), _some(),
 * _end().
 *
 * The functions that decode accept any bytes: they never read beyond the given bytes, and allocate
 * memory only in proportion to their number.
 *
 * Thread: any; a plan and a decoder must be used by one thread at a time. */

#pragma once

#include <glib.h>

#include "runtime/base/buffer.h"
#include "runtime/server/command.h"
#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

#define TPS_LOG_VERSION 1
#define TPS_LOG_MARKER "LOG"               /* marks the folder as a log's, and names its version */
#define TPS_LOG_LOCK "LOCK"                /* locked by the process that uses the log */
#define TPS_LOG_SUFFIX ".log"              /* of segments: the number in 20 digits, from 1 */
#define TPS_LOG_FIRST_GROUP TPS_DISK_BLOCK /* the offset in a segment */
#define TPS_LOG_GROUP_HEADER 64
#define TPS_LOG_RECORD_HEADER 64
#define TPS_LOG_RECORD_ALIGNMENT 64

typedef struct
{
  guint8 bytes[16];
} TpsLogId;

typedef struct
{
  TpsLogId id;    /* of the log, the same in all segments */
  guint64 number; /* of the segment */
  guint64 stamp;  /* random, different for every segment */
} TpsSegmentHead;

/* Records that are written and synced together. A group begins at a multiple of TPS_DISK_BLOCK in
 * the segment. */
typedef struct
{
  guint64 stamp;  /* of the segment */
  gint64 offset;  /* in the segment */
  gint64 n_bytes; /* a multiple of TPS_DISK_BLOCK */
  gint64 first_lsn;
  guint32 n_records;
  guint32 n_zero_sectors; /* sectors of 512 zero bytes that were written as such */
} TpsGroupHead;

#define TPS_LOG_ID_DIGITS 32

void tps_log_id_draw (TpsLogId *id);
/* Returns the id as hexadecimal digits. The caller owns the text. */
gchar *tps_log_id_to_text (const TpsLogId *id);
/* Reads TPS_LOG_ID_DIGITS lower-case hexadecimal digits, which must be the whole text. FALSE: they
 * are not. */
gboolean tps_log_id_parse (const gchar *text, TpsLogId *id);

/* Returns the file name of segment `number`: "00000000000000000007.log"; owned by the caller. */
gchar *tps_log_segment_name (guint64 number);
/* Returns the number of the segment with this file name; 0 if no segment has such a name. */
guint64 tps_log_segment_number (const gchar *name);

/* The size of a record, and the command that its bytes come from. A plan allocates no memory,
 * because clients choose the number and the lengths of the parts of a command. */
typedef struct
{
  gint64 lsn;
  guint16 kind;
  guint16 flags;
  TpsMoment moment;
  gsize n_bytes; /* of the record, a multiple of TPS_LOG_RECORD_ALIGNMENT */

  /* Private. */
  const TpsCommand *command; /* borrowed; NULL = a hole */
  gsize n_values;            /* bytes of all values except the elements of tensors */
  gsize position;            /* of tps_record_encode_some(), in the body */
  guint32 body_crc;
} TpsRecordPlan;

/* Plans the record of `command`, which is borrowed until the record has been encoded. Without
 * `with_body` only the LSN and the moment are recorded: a hole. */
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

/* Returns the number of zero sectors (TPS_DISK_SECTOR) in `data`, which must be whole sectors. */
guint32 tps_group_count_zero_sectors (const guint8 *data, gsize n_bytes);

/* Writes the head of a group, TPS_LOG_GROUP_HEADER bytes at `head`. group->n_zero_sectors must not
 * count the first sector, which has the head. */
void tps_group_encode_head (guint8 *head, const TpsGroupHead *group);

/* Writes the first sector of a segment and clears the rest of its first block. */
void tps_segment_encode_head (guint8 *block, const TpsSegmentHead *segment);

/* Returns the text of the file TPS_LOG_MARKER. The caller frees it with g_free(). */
gchar *tps_log_marker_to_text (const TpsLogId *id);

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
  TpsMoment moment;
  guint16 kind;
  guint16 flags;
  gsize body_bytes; /* the next record begins after them */
  guint32 body_crc;
  guint32 meta_bytes;
} TpsRecordHead;

/* Decodes `bytes`, TPS_LOG_RECORD_HEADER of them. FALSE: they are damaged. */
gboolean tps_record_decode_head (const guint8 *bytes, TpsRecordHead *record);

/* Returns the name of a kind of commands, such as "apply_rows"; static. NULL: it is unknown. */
const gchar *tps_command_kind_name (guint kind);

/* Returns TRUE if a record of `moment` may follow a record of `earlier`. */
gboolean tps_moment_may_follow (const TpsMoment *moment, const TpsMoment *earlier);

/* Returns TRUE if record->body_bytes at `body` have the checksum record->body_crc. */
gboolean tps_record_check_body (const TpsRecordHead *record, const guint8 *body);

/* A decoded record with its additional memory. Reused from record to record. */
typedef struct
{
  TpsCommand command;
  gboolean is_hole;       /* `command` has only its LSN and moment */
  GPtrArray *allocations; /* lists to which `command` refers */
} TpsRecordDecoder;

void tps_record_decoder_init (TpsRecordDecoder *decoder);
void tps_record_decoder_clear (TpsRecordDecoder *decoder);

/* Decodes a body at `offset` of `buffer`. The command consists of views into the buffer, which must
 * stay until the next call. Tensors of models refer to the buffer, so that references to them may
 * be taken. Errors: ABORTED, which names the inconsistency (if the checksum is correct, a different
 * program has written the bytes); INVALID_ARGUMENT for a record that this version cannot apply,
 * because an earlier or a later version has written it. */
gboolean tps_record_decode (TpsRecordDecoder *decoder, const TpsRecordHead *record,
                            TpsBuffer *buffer, gsize offset, GError **error);

/* Parses the text of the file TPS_LOG_MARKER. `id` is filled in for TPS_LOG_VERSION only. FALSE:
 * the text is not that of a marker. */
gboolean tps_log_marker_parse (const gchar *text, TpsLogId *id, guint *version);

G_END_DECLS
