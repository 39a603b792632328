/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The sum of all ranks' floats, in rank order, through memory that processes of one machine share. Internal to this folder.
 *
 * Rank 0 makes the memory, the others open it by the numbers that rank 0 tells them; it has no name in any file system and
 * goes with its last process. Every rank's calls of tps_shared_sum_run() must be of the same sizes in the same order.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_SHARED_SUM_MAX_RANKS 64

typedef struct TpsSharedSum TpsSharedSum;

/* What the others need to open the memory. */
typedef struct
{
  guint64 handle; /* process and file descriptor; never 0 */
  guint64 token;  /* tells this memory from another one that stands there by accident */
} TpsSharedSumAddress;

/* On rank 0. NULL where memory cannot be shared here. */
TpsSharedSum *tps_shared_sum_create (guint size, TpsSharedSumAddress *address);

/* On the other ranks. NULL where it cannot be opened: another machine, another user. */
TpsSharedSum *tps_shared_sum_open (const TpsSharedSumAddress *address, guint rank, guint size);

/* All ranks have opened it. */
void tps_shared_sum_close_door (TpsSharedSum *shared);

/* data [n_elems] = the sum of all ranks', added in rank order. Blocks. Errors: GROUP_BROKEN naming who is missing, gone or
 * has left. */
gboolean tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                             GError **error);

/* All ranks' calls fail from now on. Thread: any, also while one runs. */
void tps_shared_sum_break (TpsSharedSum *shared);

void tps_shared_sum_free (TpsSharedSum *shared);

G_END_DECLS
