/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The POSIX disk, with one difference: a write and its fdatasync are one submission. The kernel
 * then begins the sync without a further system call. Each writable direct file has a small ring of
 * its own, which needs no lock. If io_uring refuses an operation or completes only a part of it,
 * the POSIX functions repeat the whole write. A failed sync is never repeated. */

#include <errno.h>
#include <liburing.h>

#include "runtime/server/log/disk_error.h"
#include "runtime/server/log/posix_disk.h"

#define N_ENTRIES 2 /* a write and its sync */
#define MAX_BYTES ((gsize) 1 << 30)

typedef struct
{
  TpsPosixDisk base;
  TpsDisk posix; /* provides the functions */
} UringDisk;

static void
drop_ring (TpsPosixFile *file)
{
  io_uring_queue_exit (file->ring);
  g_clear_pointer (&file->ring, g_free);
}

static TpsDiskFile *
uring_open (TpsDisk *base, const gchar *path, guint flags, GError **error)
{
  UringDisk *disk = (UringDisk *) base;
  TpsDiskFile *file = disk->posix.open (base, path, flags, error);
  struct io_uring *ring;

  if (file == NULL || (flags & TPS_DISK_DIRECT) == 0 || (flags & TPS_DISK_READ_ONLY) != 0)
    return file;
  ring = g_new (struct io_uring, 1);
  if (io_uring_queue_init (N_ENTRIES, ring, 0) == 0)
    ((TpsPosixFile *) file)->ring = ring;
  else
    g_free (ring);
  return file;
}

static void
uring_close (TpsDiskFile *file)
{
  UringDisk *disk = (UringDisk *) file->disk;

  if (((TpsPosixFile *) file)->ring != NULL)
    drop_ring ((TpsPosixFile *) file);
  disk->posix.close (file);
}

/* Submits a write and a linked sync. Returns the number of these two requests that the kernel has
 * accepted. */
static gint
submit_pair (TpsPosixFile *file, gconstpointer data, gsize n_bytes, gint64 offset)
{
  struct io_uring_sqe *entry = io_uring_get_sqe (file->ring);
  gint n_taken;

  io_uring_prep_write (entry, file->fd, data, (unsigned) n_bytes, (guint64) offset);
  /* The link makes the kernel begin the sync after the write has ended. */
  io_uring_sqe_set_flags (entry, IOSQE_IO_LINK);
  io_uring_sqe_set_data64 (entry, 0);
  entry = io_uring_get_sqe (file->ring);
  io_uring_prep_fsync (entry, file->fd, IORING_FSYNC_DATASYNC);
  io_uring_sqe_set_data64 (entry, 1);
  do
    n_taken = io_uring_submit (file->ring);
  while (n_taken == -EINTR);
  return MAX (n_taken, 0);
}

/* Waits for the requests that the kernel has accepted, the write and perhaps its sync, and sets
 * their results; negative results are errno values. FALSE: the results are not known. */
static gboolean
wait_for_taken (TpsPosixFile *file, gint n_taken, gint results[2])
{
  for (gint n_seen = 0; n_seen < n_taken;)
    {
      struct io_uring_cqe *done;
      gint code = io_uring_wait_cqe (file->ring, &done);

      if (code == -EINTR)
        continue;
      if (code < 0)
        return FALSE;
      results[io_uring_cqe_get_data64 (done)] = done->res;
      io_uring_cqe_seen (file->ring, done);
      n_seen++;
    }
  return TRUE;
}

/* Returns TRUE if the write was short or refused, and the sync has not failed: it was cancelled, or
 * has synced a part of the data. */
static gboolean
is_worth_another_try (const gint results[2])
{
  gint written = results[0];

  return (results[1] == 0 || results[1] == -ECANCELED)
         && (written >= 0 || written == -EINVAL || written == -EAGAIN || written == -EINTR
             || written == -ENOMEM);
}

static gboolean
write_pair (TpsDiskFile *base, gconstpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  UringDisk *disk = (UringDisk *) base->disk;
  TpsPosixFile *file = (TpsPosixFile *) base;
  gint results[2] = { 0, 0 };
  gint n_taken = submit_pair (file, data, n_bytes, offset);

  if (!wait_for_taken (file, n_taken, results))
    return tps_disk_set_error (error, "io_uring", file->path, EIO);
  if (n_taken < 2)
    {
      drop_ring (file); /* discards the requests that the kernel has not accepted */
      return disk->posix.write (base, data, n_bytes, offset, TRUE, error);
    }
  if (results[0] == (gint) n_bytes && results[1] == 0)
    return TRUE;
  if (is_worth_another_try (results))
    return disk->posix.write (base, data, n_bytes, offset, TRUE, error);
  if (results[0] < 0)
    return tps_disk_set_error (error, "write", file->path, -results[0]);
  return tps_disk_set_error (error, "fdatasync", file->path, results[1] < 0 ? -results[1] : EIO);
}

static gboolean
uring_write (TpsDiskFile *base, gconstpointer data, gsize n_bytes, gint64 offset, gboolean is_sync,
             GError **error)
{
  UringDisk *disk = (UringDisk *) base->disk;
  TpsPosixFile *file = (TpsPosixFile *) base;
  gboolean is_written;

  if (file->ring == NULL || !is_sync || n_bytes > MAX_BYTES)
    return disk->posix.write (base, data, n_bytes, offset, is_sync, error);
  tps_disk_share_begin_urgent (file->share);
  is_written = write_pair (base, data, n_bytes, offset, error);
  tps_disk_share_end_urgent (file->share, tps_clock_now_ns ());
  return is_written;
}

TpsDisk *
tps_disk_new_uring (GError **error)
{
  struct io_uring ring;
  UringDisk *disk;
  gint code = io_uring_queue_init (N_ENTRIES, &ring, 0);

  if (code < 0)
    {
      tps_disk_set_error (error, "io_uring_setup", "io_uring", -code);
      return NULL;
    }
  io_uring_queue_exit (&ring);
  disk = g_new (UringDisk, 1);
  tps_posix_disk_init (&disk->base);
  disk->posix = disk->base.base;
  disk->base.base.open = uring_open;
  disk->base.base.close = uring_close;
  disk->base.base.write = uring_write;
  return &disk->base.base;
}
