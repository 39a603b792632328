/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A disk whose every file holds the bytes of the input. Read only. */

#pragma once

#include "runtime/server/log/disk.h"

typedef struct
{
  TpsDisk disk; /* first */
  const guint8 *data;
  gsize n_bytes;
  TpsDiskFile file;
} InputDisk;

/* Borrows the input. */
void input_disk_init (InputDisk *disk, const guint8 *data, gsize n_bytes);
