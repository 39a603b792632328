/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A checksum of the contents of each sector of a segment. With it, a later segment can use the same
 * file: a sector that a power cut loses then has its old contents, and a reader can distinguish it
 * from a damaged sector. Without a table, the old contents are zeros.
 *
 * The file has two tables, behind the sectors that they describe:
 *
 *   initial   the contents before the first group, synced before that group is written
 *   final     the contents after the last group, not synced, for the next segment in this file
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/log/log_layout.h"

G_BEGIN_DECLS

typedef struct
{
  guint8 *area; /* as on the disk: a block with the head, then the checksums; NULL: no table */
  gsize n_sectors;
} TpsSectorTable;

/* The size in the file of the table for `n_bytes` of a segment; a multiple of TPS_DISK_BLOCK. */
gsize tps_sector_table_get_area_bytes (gint64 n_bytes);

/* Describes a file whose first `n_bytes` are zero. Release it with clear(). */
void tps_sector_table_init (TpsSectorTable *table, gint64 n_bytes);
void tps_sector_table_clear (TpsSectorTable *table);

/* The number of sectors of `data`, at `offset` of the segment, whose contents are those in the
 * table; without a table, zeros. `offset` and `n_bytes` must be multiples of TPS_DISK_SECTOR,
 * within the table. */
guint32 tps_sector_table_count (const TpsSectorTable *table, gint64 offset, const guint8 *data,
                                gsize n_bytes);

/* The same, for a table that exists; the table then describes `data`. */
guint32 tps_sector_table_replace (TpsSectorTable *table, gint64 offset, const guint8 *data,
                                  gsize n_bytes);

/* Fills in the head of the area, so that it can be written. `stamp`: of the segment. */
void tps_sector_table_seal (TpsSectorTable *table, guint64 stamp, gboolean is_final);

/* Whether the area, which has been read from the disk, is a complete table of this segment.
 * `is_final` is set only then. */
gboolean tps_sector_table_check (const TpsSectorTable *table, guint64 stamp, gboolean *is_final);

G_END_DECLS
