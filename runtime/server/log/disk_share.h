/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shares one disk between writes that callers wait for (those of the log), and writes of low
 * priority (those of a snapshot). A disk works on its whole queue at once, and a sync waits for all
 * writes before it. A snapshot that fills the queue would therefore delay every push that waits for
 * its acknowledgement.
 *
 *   urgent        begins at once. While one is in progress, and for TPS_DISK_BUSY_NS after it, the
 *                 disk is busy.
 *   background    on a disk that is not busy: at once. On a busy disk: one at a time, and the disk
 *                 then rests from background writes for as long as the last one took; after each
 *                 TPS_DISK_REST_BYTES, for at least TPS_DISK_REST_NS. A background write is thus
 *                 never starved, and background writes take at most half of the time of a busy
 *                 disk. Syncs of files with low priority take turns in the same way.
 *
 * The long rest lets the disk write its queue, so it is due after a number of bytes. If it followed
 * each small write, a snapshot of many small tables would last long, and the log would grow
 * meanwhile.
 *
 * Thread: any.
 */

#pragma once

#include "runtime/base/sync.h"

G_BEGIN_DECLS

#define TPS_DISK_BUSY_NS ((gint64) 10 * 1000 * 1000)
#define TPS_DISK_REST_NS ((gint64) 10 * 1000 * 1000)
#define TPS_DISK_REST_BYTES ((gsize) 256 << 10)

typedef struct
{
  TpsMutex lock; /* guards the following */
  TpsCond changed;
  guint n_urgent;     /* in progress */
  guint n_background; /* in progress */
  gint64 busy_until_ns;
  gint64 rest_until_ns; /* no background write begins before this time on a busy disk */
  gsize n_bytes;        /* written in the background since the last long rest */
} TpsDiskShare;

/* Creates a share without writes. All writes must have ended before tps_disk_share_clear(). */
void tps_disk_share_init (TpsDiskShare *share);
void tps_disk_share_clear (TpsDiskShare *share);

/* Must enclose each urgent write. Neither waits. */
void tps_disk_share_begin_urgent (TpsDiskShare *share);
void tps_disk_share_end_urgent (TpsDiskShare *share, gint64 now_ns);

/* 0: the write has begun. Otherwise it may not begin yet, and the result is the time of the next
 * attempt, or G_MAXINT64: when another background write has ended. */
gint64 tps_disk_share_try_background (TpsDiskShare *share, gint64 now_ns);

/* Waits until the write may begin. Returns the time of its beginning, for
 * tps_disk_share_end_background(). `n_bytes` is the number of bytes that were written, or whose
 * disk space was released; 0 for a sync. */
gint64 tps_disk_share_begin_background (TpsDiskShare *share);
void tps_disk_share_end_background (TpsDiskShare *share, gsize n_bytes, gint64 began_ns,
                                    gint64 now_ns);

G_END_DECLS
