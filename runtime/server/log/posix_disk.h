/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Parts of the POSIX disk for other disks that use the system's files. */

#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/server/log/disk.h"
#include "runtime/server/log/disk_share.h"

G_BEGIN_DECLS

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
  struct io_uring *ring; /* of uring_disk.c; NULL = none */
} TpsPosixFile;

/* Makes a POSIX disk in the caller's storage, which must be from g_malloc(), since free() calls
 * g_free(). */
void tps_posix_disk_init (TpsPosixDisk *disk);

G_END_DECLS
