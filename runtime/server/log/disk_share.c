/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk_share.h"

void
tps_disk_share_init (TpsDiskShare *share)
{
  *share = (TpsDiskShare) { 0 };
  tps_mutex_init (&share->lock);
  tps_cond_init (&share->changed);
}

void
tps_disk_share_clear (TpsDiskShare *share)
{
  tps_cond_clear (&share->changed);
  tps_mutex_clear (&share->lock);
}

void
tps_disk_share_begin_urgent (TpsDiskShare *share)
{
  TPS_LOCK_SCOPE (&share->lock);
  share->n_urgent++;
}

void
tps_disk_share_end_urgent (TpsDiskShare *share, gint64 now_ns)
{
  TPS_LOCK_SCOPE (&share->lock);
  share->n_urgent--;
  share->busy_until_ns = now_ns + TPS_DISK_BUSY_NS;
}

/* As tps_disk_share_try_background(). The lock is held. */
static gint64
try_background (TpsDiskShare *share, gint64 now_ns)
{
  gboolean is_busy = share->n_urgent > 0 || now_ns < share->busy_until_ns;

  if (is_busy && share->n_background > 0)
    return G_MAXINT64;
  if (is_busy && now_ns < share->rest_until_ns)
    return share->rest_until_ns;
  share->n_background++;
  return 0;
}

gint64
tps_disk_share_try_background (TpsDiskShare *share, gint64 now_ns)
{
  TPS_LOCK_SCOPE (&share->lock);
  return try_background (share, now_ns);
}

gint64
tps_disk_share_begin_background (TpsDiskShare *share)
{
  gint64 now_ns, wake_ns;

  TPS_LOCK_SCOPE (&share->lock);
  while (now_ns = tps_clock_now_ns (), (wake_ns = try_background (share, now_ns)) != 0)
    if (wake_ns == G_MAXINT64)
      tps_cond_wait (&share->changed, &share->lock);
    else
      tps_cond_wait_until (&share->changed, &share->lock, wake_ns);
  return now_ns;
}

void
tps_disk_share_end_background (TpsDiskShare *share, gsize n_bytes, gint64 began_ns, gint64 now_ns)
{
  gint64 rest_ns = now_ns - began_ns;

  TPS_LOCK_SCOPE (&share->lock);
  share->n_background--;
  share->n_bytes += n_bytes;
  if (share->n_bytes >= TPS_DISK_REST_BYTES)
    {
      rest_ns = MAX (rest_ns, TPS_DISK_REST_NS);
      share->n_bytes = 0;
    }
  share->rest_until_ns = MAX (share->rest_until_ns, now_ns + rest_ns);
  tps_cond_broadcast (&share->changed);
}
