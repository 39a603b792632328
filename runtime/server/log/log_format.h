/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The headers of the log's files, as FORMAT.md describes them. Only log_encode.c and log_decode.c
 * may use them. */

#pragma once

#include "runtime/server/log/log_layout.h"

G_BEGIN_DECLS

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
  guint32 reserved_32;
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
};

/* Flags of one element of a list. */
enum
{
  TABLE_IS_SKIPPED = 1 << 0,
  PLACE_IS_HOST_MEMORY = 1 << 0,
};

/* Returns `n_bytes` rounded up to a multiple of `alignment`, which must be a power of two. */
static inline gsize
align_up (gsize n_bytes, gsize alignment)
{
  return (n_bytes + alignment - 1) & ~(alignment - 1);
}

G_END_DECLS
