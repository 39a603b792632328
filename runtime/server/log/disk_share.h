/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shares one disk between writes that callers wait for (those of the log), and writes of low
 * priority (those of a snapshot). A disk works on its whole queue at once, and a sync waits for all
 * writes before it. A snapshot that fills the queue would therefore delay the acknowledgement of
 * every push.
 *
 *   urgent        An urgent write begins at once. While it is in progress, and for TPS_DISK_BUSY_NS
 *                 after it, the disk is busy.
 *   background    On a disk that is not busy, a background write begins at once. On a busy disk,
 *                 one background write runs at a time, and none begins for as long as the last one
 *                 took; after each TPS_DISK_REST_BYTES, for at least TPS_DISK_REST_NS. A background
 *                 write is thus never starved, and background writes take at most half of the time
 *                 of a busy disk. Syncs of files with low priority count as background writes.
 *
 * The long rest, which lets the disk write its queue, is due only after a number of bytes. If it
 * followed each small write, a snapshot of many small tables would last long, and the log would
 * grow meanwhile.
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

/* Begin and end an urgent write. Neither function waits for other writes. */
void tps_disk_share_begin_urgent (TpsDiskShare *share);
void tps_disk_share_end_urgent (TpsDiskShare *share, gint64 now_ns);

/* Begins a background write if it may begin now. Returns 0 if the write has begun, otherwise the
 * time of the next attempt; G_MAXINT64: after the end of the background write in progress. */
gint64 tps_disk_share_try_background (TpsDiskShare *share, gint64 now_ns);

/* Begin and end a background write. begin() waits until the write may begin, and returns the
 * present time, which must be passed to end() as `began_ns`. `n_bytes` is the number of bytes that
 * were written, or whose disk space was released; 0 for a sync. */
gint64 tps_disk_share_begin_background (TpsDiskShare *share);
void tps_disk_share_end_background (TpsDiskShare *share, gsize n_bytes, gint64 began_ns,
                                    gint64 now_ns);

G_END_DECLS
