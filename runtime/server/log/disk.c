/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/server/log/disk_share.h"
#include "runtime/base/error.h"

#define RETRY_MS 1000

typedef struct
{
  gint code;
  TpsErrorCode error;
  const gchar *remedy; /* NULL = none */
  gboolean passes;     /* the cause may go away without the operator, so a call may be repeated */
} Kind;

static const Kind kinds[] = {
  { ENOSPC, TPS_ERROR_RESOURCE_EXHAUSTED, "make room on the disk", FALSE },
  { EDQUOT, TPS_ERROR_RESOURCE_EXHAUSTED, "make room, or raise the quota of the disk", FALSE },
  { EFBIG, TPS_ERROR_RESOURCE_EXHAUSTED, "raise the limit on the size of files (ulimit -f)",
    FALSE },
  { EMFILE, TPS_ERROR_RESOURCE_EXHAUSTED, "raise the limit of open files (ulimit -n)", TRUE },
  { ENFILE, TPS_ERROR_RESOURCE_EXHAUSTED, "raise the limit of the machine (fs.file-max)", TRUE },
  { ENOMEM, TPS_ERROR_RESOURCE_EXHAUSTED, "make memory available to the system", TRUE },
  { ENOENT, TPS_ERROR_NOT_FOUND, NULL, FALSE },
  { EEXIST, TPS_ERROR_ALREADY_EXISTS, NULL, FALSE },
  { ENOTEMPTY, TPS_ERROR_ALREADY_EXISTS, NULL, FALSE },
  { EACCES, TPS_ERROR_PERMISSION_DENIED, "give the user of this process the right to it", FALSE },
  { EPERM, TPS_ERROR_PERMISSION_DENIED, NULL, FALSE },
  { EROFS, TPS_ERROR_PERMISSION_DENIED, NULL, FALSE },
  /* the path itself is wrong, whatever the operation */
  { ENOTDIR, TPS_ERROR_INVALID_ARGUMENT, "a part of the path is not a folder", FALSE },
  { EISDIR, TPS_ERROR_INVALID_ARGUMENT, "name a file", FALSE },
  { ELOOP, TPS_ERROR_INVALID_ARGUMENT, "a link of the path leads back to itself", FALSE },
  { ENAMETOOLONG, TPS_ERROR_INVALID_ARGUMENT, "choose a shorter path", FALSE },
  { ENXIO, TPS_ERROR_INVALID_ARGUMENT, "it is not a regular file", FALSE }, /* a socket */
};

#define FILE_MODE 0600
#define FOLDER_MODE 0700
#define MAX_STEP_BYTES ((gsize) 1 << 30)       /* one system call transfers less than 2 GiB */
#define DISCARD_STEP_BYTES ((gint64) 16 << 20) /* released at a time: see discard() in disk.h */
/* This number of concurrent direct writes of a few MiB keeps a fast disk busy. A slow disk does not
 * benefit from more. */
#define N_WRITERS 4

typedef struct
{
  TpsDisk base;
  TpsDiskShare share;
} TpsPosixDisk;

typedef struct
{
  TpsDiskFile base;
  gint fd;
  atomic_bool is_direct; /* several threads may write */
  gboolean is_background;
  TpsDiskShare *share; /* of the disk */
  gchar *path;
} TpsPosixFile;

gboolean
tps_disk_set_error (GError **error, const gchar *operation, const gchar *path, gint code)
{
  static const Kind other = { 0, TPS_ERROR_INTERNAL, NULL, FALSE };
  const Kind *kind = &other;
  GError *made;

  for (guint i = 0; i < G_N_ELEMENTS (kinds) && kind == &other; i++)
    if (kinds[i].code == code)
      kind = &kinds[i];
  made = g_error_new (TPS_ERROR, (gint) kind->error, "%s: %s failed: %s%s%s", path, operation,
                      g_strerror (code), kind->remedy != NULL ? "; " : "",
                      kind->remedy != NULL ? kind->remedy : "");
  if (kind->passes)
    tps_error_set_retry_after_ms (made, RETRY_MS);
  g_propagate_error (error, made);
  return FALSE;
}

static TpsPosixFile *
posix_file (TpsDiskFile *file)
{
  return (TpsPosixFile *) file;
}

static gboolean
fail (GError **error, const gchar *operation, const TpsPosixFile *file)
{
  return tps_disk_set_error (error, operation, file->path, errno);
}

/* Without O_NONBLOCK, opening a FIFO for reading would block for ever if it has no writer. */
static gint
open_flags (guint flags)
{
  gint result = O_CLOEXEC | ((flags & TPS_DISK_READ_ONLY) != 0 ? O_RDONLY | O_NONBLOCK : O_RDWR);

  return (flags & TPS_DISK_CREATE) != 0 ? result | O_CREAT | O_EXCL : result;
}

/* Opens a file with O_DIRECT, or without it if the file system does not support it. Returns the
 * file descriptor, or -1 with errno. */
static gint
open_direct (const gchar *path, gint system_flags, gboolean *is_direct)
{
  gint fd = open (path, system_flags | O_DIRECT, FILE_MODE);

  *is_direct = fd >= 0;
  if (fd >= 0 || errno != EINVAL)
    return fd;
  /* O_EXCL is removed, because some file systems create the file before they refuse O_DIRECT. */
  return open (path, system_flags & ~O_EXCL, FILE_MODE);
}

static gboolean
check_regular (gint fd, const gchar *path, GError **error)
{
  struct stat status;

  if (fstat (fd, &status) != 0)
    return tps_disk_set_error (error, "stat", path, errno);
  if (S_ISREG (status.st_mode))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: it is not a regular file", path);
}

static TpsPosixFile *
new_file (TpsDisk *disk, gint fd, const gchar *path)
{
  TpsPosixFile *file = g_new0 (TpsPosixFile, 1);

  file->base.disk = disk;
  file->fd = fd;
  file->path = g_strdup (path);
  file->share = &((TpsPosixDisk *) disk)->share;
  return file;
}

static TpsDiskFile *
posix_open (TpsDisk *disk, const gchar *path, guint flags, GError **error)
{
  gboolean is_direct = FALSE;
  gint fd = (flags & TPS_DISK_DIRECT) != 0 ? open_direct (path, open_flags (flags), &is_direct)
                                           : open (path, open_flags (flags), FILE_MODE);
  TpsPosixFile *file;

  if (fd < 0)
    {
      tps_disk_set_error (error, "open", path, errno);
      return NULL;
    }
  if (!check_regular (fd, path, error))
    {
      close (fd);
      return NULL;
    }
  file = new_file (disk, fd, path);
  atomic_init (&file->is_direct, is_direct);
  file->is_background = (flags & TPS_DISK_BACKGROUND) != 0;
  return &file->base;
}

static void
posix_close (TpsDiskFile *base)
{
  TpsPosixFile *file = posix_file (base);

  close (file->fd);
  g_free (file->path);
  g_free (file);
}

static gint64
posix_get_size (TpsDiskFile *base, GError **error)
{
  TpsPosixFile *file = posix_file (base);
  struct stat status;

  if (fstat (file->fd, &status) == 0)
    return status.st_size;
  fail (error, "stat", file);
  return -1;
}

/* Ends direct access before writes that are not aligned, which it does not support. */
static void
stop_direct (TpsPosixFile *file)
{
  gint flags = fcntl (file->fd, F_GETFL);

  if (flags >= 0)
    fcntl (file->fd, F_SETFL, flags & ~O_DIRECT);
  atomic_store (&file->is_direct, FALSE);
}

static gboolean
posix_preallocate (TpsDiskFile *base, gint64 n_bytes, GError **error)
{
  TpsPosixFile *file = posix_file (base);
  gint code;

  do
    code = fallocate (file->fd, 0, 0, n_bytes) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code == EOPNOTSUPP)
    {
      stop_direct (file); /* posix_fallocate() then writes single bytes */
      code = posix_fallocate (file->fd, 0, n_bytes);
    }
  return code == 0 || tps_disk_set_error (error, "reserving room", file->path, code);
}

static gboolean
posix_truncate (TpsDiskFile *base, gint64 n_bytes, GError **error)
{
  TpsPosixFile *file = posix_file (base);

  return ftruncate (file->fd, n_bytes) == 0 || fail (error, "truncate", file);
}

static gssize
posix_read (TpsDiskFile *base, gpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  TpsPosixFile *file = posix_file (base);
  gsize n_read = 0;

  while (n_read < n_bytes)
    {
      ssize_t n = pread (file->fd, (guint8 *) data + n_read, MIN (n_bytes - n_read, MAX_STEP_BYTES),
                         offset + (gint64) n_read);

      if (n == 0)
        break;
      if (n < 0 && errno != EINTR)
        {
          fail (error, "read", file);
          return -1;
        }
      n_read += n > 0 ? (gsize) n : 0;
    }
  return (gssize) n_read;
}

/* SEEK_DATA treats reserved room that was never written as a hole. ENXIO: there are no data from
 * `offset` on. */
static gint64
posix_skip_zeros (TpsDiskFile *base, gint64 offset)
{
  TpsPosixFile *file = posix_file (base);
  gint64 data = lseek (file->fd, offset, SEEK_DATA);

  if (data >= 0)
    return data;
  data = errno == ENXIO ? posix_get_size (base, NULL) : offset;
  return MAX (data, offset);
}

static gboolean
sync_now (TpsPosixFile *file, GError **error)
{
  return fdatasync (file->fd) == 0 || fail (error, "fdatasync", file);
}

static gboolean
posix_sync (TpsDiskFile *base, GError **error)
{
  TpsPosixFile *file = posix_file (base);
  gboolean is_synced;
  gint64 began_ns;

  if (!file->is_background)
    return sync_now (file, error);
  began_ns = tps_disk_share_begin_background (file->share);
  is_synced = sync_now (file, error);
  tps_disk_share_end_background (file->share, 0, began_ns, tps_clock_now_ns ());
  return is_synced;
}

static gboolean
write_all (TpsPosixFile *file, gconstpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  const guint8 *bytes = data;

  while (n_bytes > 0)
    {
      ssize_t n = pwrite (file->fd, bytes, MIN (n_bytes, MAX_STEP_BYTES), offset);

      if (n < 0 && errno == EINVAL && atomic_load (&file->is_direct))
        stop_direct (file);
      else if (n < 0 && errno != EINTR)
        return fail (error, "write", file);
      if (n <= 0)
        continue;
      bytes += n;
      offset += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
write_in_background (TpsPosixFile *file, gconstpointer data, gsize n_bytes, gint64 offset,
                     GError **error)
{
  gint64 began_ns = tps_disk_share_begin_background (file->share);
  gboolean is_written = write_all (file, data, n_bytes, offset, error);

  tps_disk_share_end_background (file->share, n_bytes, began_ns, tps_clock_now_ns ());
  return is_written;
}

static gboolean
posix_write (TpsDiskFile *base, gconstpointer data, gsize n_bytes, gint64 offset, gboolean is_sync,
             GError **error)
{
  TpsPosixFile *file = posix_file (base);
  gboolean is_written;

  if (!is_sync)
    return file->is_background ? write_in_background (file, data, n_bytes, offset, error)
                               : write_all (file, data, n_bytes, offset, error);
  tps_disk_share_begin_urgent (file->share);
  is_written = write_all (file, data, n_bytes, offset, error) && sync_now (file, error);
  tps_disk_share_end_urgent (file->share, tps_clock_now_ns ());
  return is_written;
}

static gboolean
posix_rename (TpsDisk *disk, const gchar *from, const gchar *to, GError **error)
{
  return rename (from, to) == 0 || tps_disk_set_error (error, "rename", from, errno);
}

static gboolean
posix_link (TpsDisk *disk, const gchar *from, const gchar *to, GError **error)
{
  return link (from, to) == 0 || tps_disk_set_error (error, "link", from, errno);
}

static gboolean
posix_remove (TpsDisk *disk, const gchar *path, GError **error)
{
  return remove (path) == 0 || tps_disk_set_error (error, "remove", path, errno);
}

/* Cuts the file step by step after its name has been removed. A file with a second name keeps its
 * bytes. Without O_NONBLOCK, opening a FIFO without a reader would block for ever. */
static gboolean
posix_discard (TpsDisk *base, const gchar *path, GError **error)
{
  TpsDiskShare *share = &((TpsPosixDisk *) base)->share;
  gint fd = open (path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  gboolean is_removed = posix_remove (base, path, error);
  struct stat status;

  if (fd >= 0 && fstat (fd, &status) == 0 && S_ISREG (status.st_mode) && status.st_nlink == 0)
    for (gint64 size = status.st_size - DISCARD_STEP_BYTES; size > 0; size -= DISCARD_STEP_BYTES)
      {
        gint64 began_ns = tps_disk_share_begin_background (share);
        gboolean is_cut = ftruncate (fd, size) == 0;

        tps_disk_share_end_background (share, (gsize) DISCARD_STEP_BYTES, began_ns,
                                       tps_clock_now_ns ());
        if (!is_cut)
          break;
      }
  if (fd >= 0)
    close (fd);
  return is_removed;
}

static gboolean
posix_make_folder (TpsDisk *disk, const gchar *path, GError **error)
{
  return g_mkdir_with_parents (path, FOLDER_MODE) == 0
         || tps_disk_set_error (error, "making the folder", path, errno);
}

static gboolean
posix_sync_folder (TpsDisk *disk, const gchar *path, GError **error)
{
  gint fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  gint code;

  if (fd < 0)
    return tps_disk_set_error (error, "open", path, errno);
  code = fsync (fd) == 0 ? 0 : errno;
  close (fd);
  return code == 0 || tps_disk_set_error (error, "fsync", path, code);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static GStrv
posix_list (TpsDisk *disk, const gchar *path, GError **error)
{
  DIR *folder = opendir (path);
  GPtrArray *names;
  struct dirent *entry;
  gint code;

  if (folder == NULL)
    {
      tps_disk_set_error (error, "list", path, errno);
      return NULL;
    }
  names = g_ptr_array_new_with_free_func (g_free);
  while ((errno = 0, entry = readdir (folder)) != NULL)
    if (strcmp (entry->d_name, ".") != 0 && strcmp (entry->d_name, "..") != 0)
      g_ptr_array_add (names, g_strdup (entry->d_name));
  code = errno;
  closedir (folder);
  if (code != 0)
    {
      g_ptr_array_unref (names);
      tps_disk_set_error (error, "list", path, code);
      return NULL;
    }
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (GStrv) g_ptr_array_free (names, FALSE);
}

static void
set_locked_error (GError **error, const TpsPosixFile *file)
{
  gchar text[32] = "";
  ssize_t n = pread (file->fd, text, sizeof text - 1, 0);

  text[MAX (n, 0)] = '\0';
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "%s: another process%s%s has locked it; a folder is used by one process at a time",
               file->path, n > 0 ? ", " : "", g_strchomp (text));
}

/* Writes the process id to the lock file, for the error messages of other processes. A failure has
 * no consequences. */
static void
write_owner (const TpsPosixFile *file)
{
  g_autofree gchar *text = g_strdup_printf ("process %ld\n", (glong) getpid ());

  if (ftruncate (file->fd, 0) == 0 && pwrite (file->fd, text, strlen (text), 0) < 0)
    g_debug ("%s: %s", file->path, g_strerror (errno));
}

/* Opens a folder, or a file that is created if there is none. The name of a file may be a link to
 * another file, or another name of it, and the process id must not be written there. */
static gint
open_lock (const gchar *path, GError **error)
{
  gint fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status;

  if (fd >= 0)
    return fd;
  fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
  if (fd < 0 && errno != ELOOP)
    {
      tps_disk_set_error (error, "open", path, errno);
      return -1;
    }
  if (fd >= 0 && fstat (fd, &status) == 0 && S_ISREG (status.st_mode) && status.st_nlink <= 1)
    return fd;
  if (fd >= 0)
    close (fd);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "%s: a lock must be a regular file without a second name; remove it", path);
  return -1;
}

/* EBADF: NFS locks only files that are open for writing, and a folder cannot be. */
static TpsDiskFile *
posix_lock (TpsDisk *disk, const gchar *path, GError **error)
{
  gint fd = open_lock (path, error);
  TpsPosixFile *file;

  if (fd < 0)
    return NULL;
  file = new_file (disk, fd, path);
  if (flock (fd, LOCK_EX | LOCK_NB) == 0 || errno == EBADF)
    {
      write_owner (file);
      return &file->base;
    }
  if (errno == EWOULDBLOCK)
    set_locked_error (error, file);
  else
    fail (error, "lock", file);
  posix_close (&file->base);
  return NULL;
}

static void
posix_free (TpsDisk *disk)
{
  tps_disk_share_clear (&((TpsPosixDisk *) disk)->share);
  g_free (disk);
}

TpsDisk *
tps_disk_new_posix (void)
{
  TpsPosixDisk *disk = g_new (TpsPosixDisk, 1);

  tps_disk_share_init (&disk->share);
  disk->base = (TpsDisk) {
    .n_writers = N_WRITERS,
    .open = posix_open,
    .close = posix_close,
    .get_size = posix_get_size,
    .preallocate = posix_preallocate,
    .truncate = posix_truncate,
    .read = posix_read,
    .skip_zeros = posix_skip_zeros,
    .write = posix_write,
    .sync = posix_sync,
    .rename = posix_rename,
    .link = posix_link,
    .remove = posix_remove,
    .discard = posix_discard,
    .make_folder = posix_make_folder,
    .sync_folder = posix_sync_folder,
    .list = posix_list,
    .lock = posix_lock,
    .free = posix_free,
  };
  return &disk->base;
}

gboolean
tps_disk_is_deleted_name (const gchar *name)
{
  return g_str_has_prefix (name, ".nfs") || g_str_has_prefix (name, ".fuse_hidden");
}

gboolean
tps_disk_write_text (TpsDisk *disk, const gchar *path, const gchar *text, GError **error)
{
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_CREATE, error);
  gboolean ok;

  if (file == NULL)
    return FALSE;
  ok = disk->write (file, text, strlen (text), 0, TRUE, error);
  disk->close (file);
  return ok;
}

gboolean
tps_disk_discard (TpsDisk *disk, const gchar *path, GError **error)
{
  return disk->discard != NULL ? disk->discard (disk, path, error)
                               : disk->remove (disk, path, error);
}

gboolean
tps_disk_discard_all (TpsDisk *disk, const gchar *path, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_auto (GStrv) names = NULL;

  if (tps_disk_discard (disk, path, &failure))
    return TRUE;
  /* Only a folder can have contents. */
  if (!g_error_matches (failure, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  names = disk->list (disk, path, error);
  if (names == NULL)
    return FALSE;
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree gchar *below = g_build_filename (path, names[i], NULL);

      if (!tps_disk_discard_all (disk, below, error))
        return FALSE;
    }
  return disk->remove (disk, path, error);
}

void
tps_disk_free (TpsDisk *disk)
{
  disk->free (disk);
}
