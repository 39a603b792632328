/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/sector_table.h"

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/server/log/log_decode.h"
#include "runtime/server/log/log_encode.h"

static gsize
get_table_bytes (gsize n_sectors)
{
  gsize n_bytes = n_sectors * sizeof (guint32);

  return (n_bytes + TPS_DISK_BLOCK - 1) & ~(gsize) (TPS_DISK_BLOCK - 1);
}

static guint32 *
get_sums (const TpsSectorTable *table)
{
  return (guint32 *) (gpointer) (table->area + TPS_DISK_BLOCK);
}

static guint32
get_zero_sum (void)
{
  static const guint8 zeros[TPS_DISK_SECTOR];

  return tps_crc32c (0, zeros, sizeof zeros);
}

gsize
tps_sector_table_get_area_bytes (gint64 n_bytes)
{
  return TPS_DISK_BLOCK + get_table_bytes ((gsize) n_bytes / TPS_DISK_SECTOR);
}

void
tps_sector_table_init (TpsSectorTable *table, gint64 n_bytes)
{
  guint32 zero_sum = get_zero_sum ();
  gsize n_area = tps_sector_table_get_area_bytes (n_bytes);

  table->n_sectors = (gsize) n_bytes / TPS_DISK_SECTOR;
  table->area = g_aligned_alloc0 (1, n_area, TPS_DISK_BLOCK);
  for (gsize i = 0; i < table->n_sectors; i++)
    get_sums (table)[i] = zero_sum;
}

void
tps_sector_table_clear (TpsSectorTable *table)
{
  g_aligned_free (table->area);
  *table = (TpsSectorTable) { 0 };
}

guint32
tps_sector_table_count (const TpsSectorTable *table, gint64 offset, const guint8 *data,
                        gsize n_bytes)
{
  const guint32 *sums = table->area != NULL ? get_sums (table) + offset / TPS_DISK_SECTOR : NULL;
  guint32 zero_sum = get_zero_sum ();
  guint32 n_same = 0;

  for (gsize i = 0; i < n_bytes / TPS_DISK_SECTOR; i++)
    n_same += tps_crc32c (0, data + i * TPS_DISK_SECTOR, TPS_DISK_SECTOR)
              == (sums != NULL ? sums[i] : zero_sum);
  return n_same;
}

guint32
tps_sector_table_replace (TpsSectorTable *table, gint64 offset, const guint8 *data, gsize n_bytes)
{
  guint32 *sums = get_sums (table) + offset / TPS_DISK_SECTOR;
  guint32 n_same = 0;

  for (gsize at = 0; at < n_bytes; at += TPS_DISK_SECTOR, sums++)
    {
      guint32 sum = tps_crc32c (0, data + at, TPS_DISK_SECTOR);

      n_same += *sums == sum;
      *sums = sum;
    }
  return n_same;
}

/* ---- on the disk ----------------------------------------------------------------------------- */

static guint32
get_checksum (const TpsSectorTable *table)
{
  return tps_crc32c (0, table->area + TPS_DISK_BLOCK, get_table_bytes (table->n_sectors));
}

void
tps_sector_table_seal (TpsSectorTable *table, guint64 stamp, gboolean is_final)
{
  TpsSectorTableHead head = { .stamp = stamp,
                              .is_final = is_final,
                              .n_sectors = table->n_sectors,
                              .checksum = get_checksum (table) };

  tps_sector_table_encode_head (table->area, &head);
}

gboolean
tps_sector_table_check (const TpsSectorTable *table, guint64 stamp, gboolean *is_final)
{
  TpsSectorTableHead head;

  if (tps_sector_table_decode_head (table->area, &head) != TPS_HEAD_OK || head.stamp != stamp
      || head.n_sectors != table->n_sectors || head.checksum != get_checksum (table))
    return FALSE;
  *is_final = head.is_final;
  return TRUE;
}
