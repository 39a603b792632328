/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What other disks that use the system's files share with the POSIX disk. */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDiskFile base;
  gint fd;
  gboolean is_direct;
  gchar *path;
  struct io_uring *ring; /* of uring_disk.c; NULL = none */
} TpsPosixFile;

/* All functions of the POSIX disk; its free() calls g_free(). */
void tps_posix_disk_init (TpsDisk *disk);

G_END_DECLS
