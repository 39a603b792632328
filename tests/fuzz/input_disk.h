/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A read-only disk whose every file contains the bytes of the input. */

#pragma once

#include "runtime/server/log/disk.h"

typedef struct
{
  TpsDisk disk; /* must be the first member */
  const guint8 *data;
  gsize n_bytes;
  TpsDiskFile file;
} InputDisk;

/* Borrows the input. */
void input_disk_init (InputDisk *disk, const guint8 *data, gsize n_bytes);
