/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The layout of the log, which its writers and readers share: sizes, names, and the fields of
 * heads. log_format.h has the layout of the bytes. */

#pragma once

#include <glib.h>

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

/* Sets `id` to random bytes. */
void tps_log_id_draw (TpsLogId *id);
/* Returns the id as hexadecimal digits. The caller owns the text. */
gchar *tps_log_id_to_text (const TpsLogId *id);
/* Reads TPS_LOG_ID_DIGITS lower-case hexadecimal digits, which must be the whole text. FALSE: they
 * are not. */
gboolean tps_log_id_parse (const gchar *text, TpsLogId *id);

/* Returns the name of the file of segment `number`, such as "00000000000000000007.log". The caller
 * owns the name. */
gchar *tps_log_segment_name (guint64 number);
/* Returns the number of the segment with this file name; 0 if no segment has such a name. */
guint64 tps_log_segment_number (const gchar *name);

G_END_DECLS
