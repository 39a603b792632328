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

/* Creates a file of `n_bytes` bytes, at least 8. It begins with its token, followed by zeros, and
 * its size cannot change. Returns a descriptor, owned by the caller; the file can be opened until
 * it is closed. Returns -1 if memory cannot be shared here. */
gint tps_rank_file_create (gsize n_bytes, TpsRankFileAddress *address);

/* Opens the file of another rank. Returns a descriptor, owned by the caller, or -1 if it cannot be
 * opened (another machine, another user) or is not a file of this size and token. */
gint tps_rank_file_open (const TpsRankFileAddress *address, gsize n_bytes);

G_END_DECLS
