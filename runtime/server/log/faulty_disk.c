/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A wrapper around a different disk. A write and its sync are two steps here, so a fault may occur
 * between them. */

#include "runtime/server/log/faulty_disk.h"

#include <errno.h>

typedef struct
{
  TpsDisk base;
  TpsDisk *inner; /* owned */
  TpsFaultPlan *plan;
} FaultyDisk;

typedef struct
{
  TpsDiskFile base;
  TpsDiskFile *inner; /* owned */
  gchar *path;
} FaultyFile;

static TpsDisk *
inner_of (TpsDisk *disk)
{
  return ((FaultyDisk *) disk)->inner;
}

static TpsDiskFile *
inner_file (TpsDiskFile *file)
{
  return ((FaultyFile *) file)->inner;
}

/* Applies the fault that the plan has for this point, if any. FALSE: the operation must fail. */
static gboolean
meet (TpsDiskFile *file, TpsFaultPoint point, const gchar *operation, GError **error)
{
  const FaultyDisk *disk = (const FaultyDisk *) file->disk;
  const gchar *path = ((const FaultyFile *) file)->path;
  TpsFault fault = tps_fault_plan_draw (disk->plan, point, path);

  if (fault.action == TPS_FAULT_FAIL || fault.action == TPS_FAULT_FULL)
    return tps_disk_set_error (error, operation, path,
                               fault.action == TPS_FAULT_FULL ? ENOSPC : EIO);
  if (fault.action == TPS_FAULT_DELAY)
    g_usleep ((gulong) (fault.delay_ns / 1000));
  return TRUE;
}

static TpsDiskFile *
wrap (TpsDisk *disk, TpsDiskFile *inner, const gchar *path)
{
  FaultyFile *file;

  if (inner == NULL)
    return NULL;
  file = g_new0 (FaultyFile, 1);
  file->base.disk = disk;
  file->inner = inner;
  file->path = g_strdup (path);
  return &file->base;
}

static TpsDiskFile *
faulty_open (TpsDisk *disk, const gchar *path, guint flags, GError **error)
{
  return wrap (disk, inner_of (disk)->open (inner_of (disk), path, flags, error), path);
}

static void
faulty_close (TpsDiskFile *base)
{
  FaultyFile *file = (FaultyFile *) base;

  file->inner->disk->close (file->inner);
  g_free (file->path);
  g_free (file);
}

static gint64
faulty_get_size (TpsDiskFile *file, GError **error)
{
  return inner_of (file->disk)->get_size (inner_file (file), error);
}

static gboolean
faulty_preallocate (TpsDiskFile *file, gint64 n_bytes, GError **error)
{
  return meet (file, TPS_FAULT_AT_RESERVE, "reserve", error)
         && inner_of (file->disk)->preallocate (inner_file (file), n_bytes, error);
}

static gboolean
faulty_truncate (TpsDiskFile *file, gint64 n_bytes, GError **error)
{
  return inner_of (file->disk)->truncate (inner_file (file), n_bytes, error);
}

static gssize
faulty_read (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  if (!meet (file, TPS_FAULT_AT_READ, "read", error))
    return -1;
  return inner_of (file->disk)->read (inner_file (file), data, n_bytes, offset, error);
}

static gint64
faulty_skip_zeros (TpsDiskFile *file, gint64 offset)
{
  const TpsDisk *inner = inner_of (file->disk);

  return inner->skip_zeros != NULL ? inner->skip_zeros (inner_file (file), offset) : offset;
}

static gboolean
faulty_sync (TpsDiskFile *file, GError **error)
{
  return meet (file, TPS_FAULT_AT_SYNC, "sync", error)
         && inner_of (file->disk)->sync (inner_file (file), error)
         && meet (file, TPS_FAULT_AT_SYNCED, "sync", error);
}

static gboolean
faulty_write (TpsDiskFile *file, gconstpointer data, gsize n_bytes, gint64 offset, gboolean is_sync,
              GError **error)
{
  return meet (file, TPS_FAULT_AT_WRITE, "write", error)
         && inner_of (file->disk)->write (inner_file (file), data, n_bytes, offset, FALSE, error)
         && (!is_sync || faulty_sync (file, error));
}

static gboolean
faulty_rename (TpsDisk *disk, const gchar *from, const gchar *to, GError **error)
{
  return inner_of (disk)->rename (inner_of (disk), from, to, error);
}

static gboolean
faulty_link (TpsDisk *disk, const gchar *from, const gchar *to, GError **error)
{
  return inner_of (disk)->link (inner_of (disk), from, to, error);
}

static gboolean
faulty_remove (TpsDisk *disk, const gchar *path, GError **error)
{
  return inner_of (disk)->remove (inner_of (disk), path, error);
}

static gboolean
faulty_make_folder (TpsDisk *disk, const gchar *path, GError **error)
{
  return inner_of (disk)->make_folder (inner_of (disk), path, error);
}

static gboolean
faulty_sync_folder (TpsDisk *disk, const gchar *path, GError **error)
{
  return inner_of (disk)->sync_folder (inner_of (disk), path, error);
}

static GStrv
faulty_list (TpsDisk *disk, const gchar *path, GError **error)
{
  return inner_of (disk)->list (inner_of (disk), path, error);
}

static TpsDiskFile *
faulty_lock (TpsDisk *disk, const gchar *path, GError **error)
{
  return wrap (disk, inner_of (disk)->lock (inner_of (disk), path, error), path);
}

static void
faulty_free (TpsDisk *disk)
{
  tps_disk_free (inner_of (disk));
  g_free (disk);
}

TpsDisk *
tps_faulty_disk_new (TpsDisk *inner, TpsFaultPlan *plan)
{
  FaultyDisk *disk = g_new0 (FaultyDisk, 1);

  disk->base = (TpsDisk) {
    .open = faulty_open,
    .close = faulty_close,
    .get_size = faulty_get_size,
    .preallocate = faulty_preallocate,
    .truncate = faulty_truncate,
    .read = faulty_read,
    .skip_zeros = faulty_skip_zeros,
    .write = faulty_write,
    .sync = faulty_sync,
    .rename = faulty_rename,
    .link = inner->link != NULL ? faulty_link : NULL,
    .remove = faulty_remove,
    .make_folder = faulty_make_folder,
    .sync_folder = faulty_sync_folder,
    .list = faulty_list,
    .lock = faulty_lock,
    .free = faulty_free,
  };
  disk->inner = inner;
  disk->plan = plan;
  return &disk->base;
}
