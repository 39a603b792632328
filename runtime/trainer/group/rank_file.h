/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files in memory that one rank creates and the other ranks of its machine open. A file has no name
 * in any file system and is released with its last descriptor and mapping. Internal to this folder.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The address by which the other ranks open a file. */
typedef struct
{
  guint64 handle; /* process and file descriptor; 0 = no file */
  guint64 token;  /* distinguishes this file from an unrelated one with the same handle */
} TpsRankFileAddress;

/* Creates a file of `n_bytes` bytes, which must be at least 8. The file begins with its token,
 * followed by zeros; its size cannot change. Returns a descriptor, owned by the caller; other ranks
 * can open the file until this descriptor is closed. Returns -1 if memory cannot be shared here. */
gint tps_rank_file_create (gsize n_bytes, TpsRankFileAddress *address);

/* Opens the file of another rank. Returns a descriptor, owned by the caller. Returns -1 if the file
 * cannot be opened (another machine, another user) or has a different size or token. */
gint tps_rank_file_open (const TpsRankFileAddress *address, gsize n_bytes);

G_END_DECLS
