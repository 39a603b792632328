/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/fuzz/input_disk.h"

#include <string.h>

static TpsDiskFile *
input_open (TpsDisk *disk, const gchar *path, guint flags, GError **error)
{
  return &((InputDisk *) disk)->file;
}

static void
input_close (TpsDiskFile *file)
{
}

static gint64
input_get_size (TpsDiskFile *file, GError **error)
{
  return (gint64) ((InputDisk *) file->disk)->n_bytes;
}

static gssize
input_read (TpsDiskFile *file, gpointer data, gsize n_bytes, gint64 offset, GError **error)
{
  const InputDisk *disk = (const InputDisk *) file->disk;
  gsize at = MIN ((gsize) offset, disk->n_bytes);
  gsize n = MIN (n_bytes, disk->n_bytes - at);

  memcpy (data, disk->data + at, n);
  return (gssize) n;
}

void
input_disk_init (InputDisk *disk, const guint8 *data, gsize n_bytes)
{
  *disk = (InputDisk) { .disk = { .open = input_open,
                                  .close = input_close,
                                  .get_size = input_get_size,
                                  .read = input_read },
                        .data = data,
                        .n_bytes = n_bytes };
  disk->file.disk = &disk->disk;
}
