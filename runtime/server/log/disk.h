/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files as the log and snapshots need them: one table of functions, so that a test can put a
 * simulated disk in place of a real one.
 *
 *   file = disk->open (disk, path, TPS_DISK_CREATE | TPS_DISK_DIRECT, &error);
 *   disk->preallocate (file, 256 << 20, &error);
 *   disk->write (file, block, 4096, 0, TRUE, &error);        written, and on the medium
 *   disk->sync_folder (disk, folder, &error);                its name is on the medium too
 *   disk->close (file);
 *
 * All functions block until the system has done what was asked for: a caller that wants to overlap
 * work with a write uses another thread. What a write() with `is_sync` or a sync() has acknowledged
 * survives a power cut. Names (open, rename, link, remove) survive after sync_folder() of their
 * folder. Anything else may be lost, in units of 512 bytes and in any order.
 *
 * Errors are TPS_ERROR and name the operation, the path and what the system said:
 *   RESOURCE_EXHAUSTED   no room: the disk or a quota is full
 *   NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED (also a read-only file system)
 *   UNAVAILABLE          lock(): another process holds it
 *   INTERNAL             anything else. After a failed write or sync the contents of the file are
 *                        undefined, and a second sync
 *                        proves nothing: it must not be tried again.
 *
 * Threads: any; one file is used by one thread at a time, except that any number of threads may
 * read it, and `n_writers` write it at different offsets.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The unit that a power cut keeps or loses as a whole. */
#define TPS_DISK_SECTOR 512
/* Memory, offsets and lengths of reads and writes of a TPS_DISK_DIRECT file are multiples of
 * this. */
#define TPS_DISK_BLOCK 4096

typedef struct TpsDisk TpsDisk;
typedef struct TpsDiskFile TpsDiskFile;

typedef enum
{
  TPS_DISK_READ_ONLY = 1 << 0, /* write(), preallocate(), truncate() and sync() are not called */
  TPS_DISK_CREATE = 1 << 1,    /* ALREADY_EXISTS if there is one; readable by the owner only */
  TPS_DISK_DIRECT = 1 << 2,    /* bypasses the page cache where the file system can do so */
  /* Writes without `is_sync` have time: they wait while others sync, see disk_share.h. */
  TPS_DISK_BACKGROUND = 1 << 3,
} TpsDiskOpenFlags;

struct TpsDisk
{
  guint n_writers; /* writes of one file that the disk takes at a time; 0 = 1 */

  /* Opens a regular file. Owned by the caller: close(). */
  TpsDiskFile *(*open) (TpsDisk *disk, const gchar *path, guint flags, GError **error);
  void (*close) (TpsDiskFile *file);

  /* -1 with an error. */
  gint64 (*get_size) (TpsDiskFile *file, GError **error);

  /* Makes the file `n_bytes` long and reserves room for all of it; bytes that it did not have
   * before are zero. Never makes it shorter. */
  gboolean (*preallocate) (TpsDiskFile *file, gint64 n_bytes, GError **error);

  /* Cuts the file to `n_bytes`, which it has at least. */
  gboolean (*truncate) (TpsDiskFile *file, gint64 n_bytes, GError **error);

  /* Reads up to `n_bytes`; fewer only at the end of the file. The number of bytes read, or -1
   * with an error. */
  gssize (*read) (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **error);

  /* The first offset from `offset` on at which there may be something else than zeros, at most the
   * size. Optional. */
  gint64 (*skip_zeros) (TpsDiskFile *file, gint64 offset);

  /* Writes all of `data`. With `is_sync` it then does what sync() does. */
  gboolean (*write) (TpsDiskFile *file, gconstpointer data, gsize n_bytes, gint64 offset,
                     gboolean is_sync, GError **error);

  /* Puts the file's contents and size on the medium. */
  gboolean (*sync) (TpsDiskFile *file, GError **error);

  /* Replaces `to` if there is one. */
  gboolean (*rename) (TpsDisk *disk, const gchar *from, const gchar *to, GError **error);
  /* Gives file `from` a second name, `to`, which there must not be; both files must not be written
   * any more. Optional; fails where the file system has no such names, and callers then do without.
   * */
  gboolean (*link) (TpsDisk *disk, const gchar *from, const gchar *to, GError **error);
  /* Of a file, or of a folder that is empty. */
  gboolean (*remove) (TpsDisk *disk, const gchar *path, GError **error);
  /* The same, and the file's room is given back step by step, as background work: a file system
   * that frees a large file at once may delay every sync for as long as that takes. Readers that
   * have the file open see it become shorter. Optional: see tps_disk_discard(). */
  gboolean (*discard) (TpsDisk *disk, const gchar *path, GError **error);

  /* Creates a folder, and those above it; there may be one already. */
  gboolean (*make_folder) (TpsDisk *disk, const gchar *path, GError **error);
  /* Puts the names in a folder on the medium. */
  gboolean (*sync_folder) (TpsDisk *disk, const gchar *path, GError **error);
  /* The names in a folder, sorted, without "." and "..". g_strfreev(). */
  GStrv (*list) (TpsDisk *disk, const gchar *path, GError **error);

  /* Takes the lock file `path`, which is created, for this process until close(). UNAVAILABLE:
   * another process has it. */
  TpsDiskFile *(*lock) (TpsDisk *disk, const gchar *path, GError **error);

  /* Closes the disk; no file may be open. */
  void (*free) (TpsDisk *disk);
};

/* Every file begins with this. */
struct TpsDiskFile
{
  TpsDisk *disk;
};

/* pwrite() and fdatasync(); O_DIRECT where the file system takes it. Never fails. */
TpsDisk *tps_disk_new_posix (void);

/* The same files, with each write and its sync as one submission to io_uring. NULL: the kernel,
 * or a filter on its system calls, refuses io_uring; the error says why. */
TpsDisk *tps_disk_new_uring (GError **error);

/* io_uring where it can be had, POSIX otherwise. */
TpsDisk *tps_disk_new (void);

void tps_disk_free (TpsDisk *disk);

/* discard() of a disk that has it, otherwise remove(). */
gboolean tps_disk_discard (TpsDisk *disk, const gchar *path, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDisk, tps_disk_free)

G_END_DECLS
