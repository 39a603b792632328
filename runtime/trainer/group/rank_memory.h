/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that all ranks of one machine map, and meetings (barriers) of these ranks. Internal to
 * this folder.
 *
 * Rank 0 creates the memory, and the other ranks open it by the address that rank 0 sends them. The
 * memory has no name in any file system and is released with its last mapping. Every rank must take
 * part in the same meetings.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* -- files of ranks -- */

/* Files in memory that one rank creates and the other ranks of its machine open. A file has no name
 * in any file system and is released with its last descriptor and mapping. Internal to this folder.
 */

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

#define TPS_RANK_MEMORY_MAX_RANKS 64

typedef struct TpsRankMemory TpsRankMemory;

/* Creates `n_bytes` of zeroed memory for `size` ranks, on rank 0. Owned by the caller. Returns NULL
 * if memory cannot be shared here, or not by this number of ranks. */
TpsRankMemory *tps_rank_memory_create (guint size, gsize n_bytes, TpsRankFileAddress *address);

/* Opens the memory on the other ranks; `size` and `n_bytes` must be equal on all ranks. Owned by
 * the caller. Returns NULL if the memory cannot be opened (another machine, another user). */
TpsRankMemory *tps_rank_memory_open (const TpsRankFileAddress *address, guint rank, guint size,
                                     gsize n_bytes);

/* Prevents other processes from opening the memory. Must not be called before all ranks have opened
 * it. */
void tps_rank_memory_close_door (TpsRankMemory *memory);

/* Return the rank of this process, and the number of ranks. */
guint tps_rank_memory_get_rank (const TpsRankMemory *memory);
guint tps_rank_memory_get_size (const TpsRankMemory *memory);

/* Returns the data, page-aligned. Borrowed. */
gpointer tps_rank_memory_get_data (TpsRankMemory *memory);

/* Blocks until all ranks have arrived; their earlier writes are visible afterwards. Errors:
 * GROUP_BROKEN naming the rank that is missing, has ended or has broken the group. */
gboolean tps_rank_memory_meet (TpsRankMemory *memory, gint64 deadline_ns, GError **error);

/* Makes current and later meetings of all ranks fail. Thread: any, even during a meeting. */
void tps_rank_memory_break (TpsRankMemory *memory);

/* Unmaps the memory in this process and frees the object. */
void tps_rank_memory_free (TpsRankMemory *memory);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRankMemory, tps_rank_memory_free)

G_END_DECLS
