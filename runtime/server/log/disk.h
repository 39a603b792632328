/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files for the log and for snapshots. A disk is a table of functions, so that a test can replace a
 * real disk by a simulated one.
 *
 *   file = disk->open (disk, path, TPS_DISK_CREATE | TPS_DISK_DIRECT, &error);
 *   disk->preallocate (file, 256 << 20, &error);
 *   disk->write (file, block, 4096, 0, TRUE, &error);        written, and on the medium
 *   disk->sync_folder (disk, folder, &error);                the file's name is on the medium too
 *   disk->close (file);
 *
 * All functions block until the operation is complete. A caller that wants to overlap work with a
 * write must use another thread. Data that a write() with `is_sync` or a sync() has acknowledged
 * survive a power cut. Names (open, rename, link, remove) survive after sync_folder() of their
 * folder. Anything else may be lost, in units of 512 bytes and in any order.
 *
 * Errors are TPS_ERROR and name the operation, the path and the system's message:
 *   RESOURCE_EXHAUSTED   no room: the disk or a quota is full, a file may not grow, or there are no
 *                        descriptors or no memory. The message has the remedy. An operation that
 *                        needs room, such as open() or preallocate(), may be tried again
 *   NOT_FOUND
 *   ALREADY_EXISTS       also a folder that is not empty
 *   PERMISSION_DENIED    also a read-only file system
 *   UNAVAILABLE          lock(): another process holds the lock
 *   INVALID_ARGUMENT     the path is wrong: it is too long, or has a part that is no folder, or
 *                        open() found something other than a regular file
 *   INTERNAL             all other errors. After a failed write or sync the contents of the file
 *                        are undefined, and a second sync proves nothing: it must not be tried
 *                        again.
 *
 * Threads: any. A file must be used by one thread at a time, except that any number of threads may
 * read it, and up to `n_writers` threads may write to it at different offsets.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A power cut keeps or loses this unit as a whole. */
#define TPS_DISK_SECTOR 512
/* Memory, offsets and lengths of reads and writes of a TPS_DISK_DIRECT file must be multiples of
 * this. */
#define TPS_DISK_BLOCK 4096

typedef struct TpsDisk TpsDisk;
typedef struct TpsDiskFile TpsDiskFile;

typedef enum
{
  /* write(), preallocate(), truncate() and sync() must not be called */
  TPS_DISK_READ_ONLY = 1 << 0,
  TPS_DISK_CREATE = 1 << 1, /* ALREADY_EXISTS if the file exists; readable by the owner only */
  TPS_DISK_DIRECT = 1 << 2, /* bypasses the page cache if the file system supports that */
  /* sync(), and writes without `is_sync`, have low priority: see disk_share.h. */
  TPS_DISK_BACKGROUND = 1 << 3,
} TpsDiskOpenFlags;

struct TpsDisk
{
  guint n_writers; /* the number of concurrent writes to one file that the disk supports; 0 = 1 */

  /* Opens a regular file, with TpsDiskOpenFlags. The caller owns the file and must close() it. */
  TpsDiskFile *(*open) (TpsDisk *disk, const gchar *path, guint flags, GError **error);
  void (*close) (TpsDiskFile *file);

  /* Returns the length of the file in bytes, or -1 with an error. */
  gint64 (*get_size) (TpsDiskFile *file, GError **error);

  /* Makes the file at least `n_bytes` long and reserves room for these bytes; additional bytes are
   * zero. Never makes the file shorter. */
  gboolean (*preallocate) (TpsDiskFile *file, gint64 n_bytes, GError **error);

  /* Cuts the file to `n_bytes`, which must not exceed its length. */
  gboolean (*truncate) (TpsDiskFile *file, gint64 n_bytes, GError **error);

  /* Reads up to `n_bytes`; fewer only at the end of the file. Returns the number of bytes read, or
   * -1 with an error. */
  gssize (*read) (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **error);

  /* Returns an end, from `offset` to the size of the file, such that all bytes in [offset, end) are
   * zero. Optional. */
  gint64 (*skip_zeros) (TpsDiskFile *file, gint64 offset);

  /* Writes all of `data`. With `is_sync` it then does the same as sync(). */
  gboolean (*write) (TpsDiskFile *file, gconstpointer data, gsize n_bytes, gint64 offset,
                     gboolean is_sync, GError **error);

  /* Puts the file's contents and size on the medium. */
  gboolean (*sync) (TpsDiskFile *file, GError **error);

  /* Replaces `to` if it exists. */
  gboolean (*rename) (TpsDisk *disk, const gchar *from, const gchar *to, GError **error);
  /* Gives file `from` a second name, `to`, which must not exist. The file must not be written any
   * more. Optional. Fails if the file system has no hard links; callers must then do without
   * them. */
  gboolean (*link) (TpsDisk *disk, const gchar *from, const gchar *to, GError **error);
  /* Removes a file, or an empty folder. */
  gboolean (*remove) (TpsDisk *disk, const gchar *path, GError **error);
  /* As remove(), but releases the room of the file step by step, as background work: a file system
   * that frees a large file at once may delay every sync meanwhile. Readers that have the file open
   * see it become shorter, unless it has a second name. Optional: see tps_disk_discard(). */
  gboolean (*discard) (TpsDisk *disk, const gchar *path, GError **error);

  /* Creates a folder, and its parents; succeeds if it exists. */
  gboolean (*make_folder) (TpsDisk *disk, const gchar *path, GError **error);
  /* Puts the names in a folder on the medium. */
  gboolean (*sync_folder) (TpsDisk *disk, const gchar *path, GError **error);
  /* Returns the names in a folder, sorted, without "." and "..". The caller frees them with
   * g_strfreev(). */
  GStrv (*list) (TpsDisk *disk, const gchar *path, GError **error);

  /* Locks `path` for this process until close(): a folder, or a lock file, which is created if it
   * is missing. A file system may be unable to lock a folder, which is then not locked.
   * UNAVAILABLE: another process holds the lock. */
  TpsDiskFile *(*lock) (TpsDisk *disk, const gchar *path, GError **error);

  /* Closes the disk; no file may be open. */
  void (*free) (TpsDisk *disk);
};

/* Every file begins with this. */
struct TpsDiskFile
{
  TpsDisk *disk;
};

/* Makes a disk of the system's files, with pwrite() and fdatasync(), and with O_DIRECT if the file
 * system supports it. The caller owns the disk. Never fails. */
TpsDisk *tps_disk_new_posix (void);

/* Sets the error of `operation` on `path` for an errno. Returns FALSE. For disks that use the
 * system's files. */
gboolean tps_disk_set_error (GError **error, const gchar *operation, const gchar *path, gint code);
void tps_disk_free (TpsDisk *disk);

/* Returns TRUE if a name in a folder is that of a deleted file. NFS and FUSE give such a name to a
 * file that is deleted while a process has it open. After a power failure, the file may stay. */
gboolean tps_disk_is_deleted_name (const gchar *name);

/* Writes `text` to a new file, and syncs it. Errors: those of the disk. */
gboolean tps_disk_write_text (TpsDisk *disk, const gchar *path, const gchar *text, GError **error);

/* Calls discard() if the disk has it, otherwise remove(). */
gboolean tps_disk_discard (TpsDisk *disk, const gchar *path, GError **error);

/* As tps_disk_discard(), but with the contents of a folder. Links are removed, not followed. */
gboolean tps_disk_discard_all (TpsDisk *disk, const gchar *path, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDisk, tps_disk_free)

G_END_DECLS
