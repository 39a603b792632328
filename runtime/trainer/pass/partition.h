/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Assignment of averages to servers.
 *
 * By bucket: each bucket has one owner among all servers, and every trainer sends the bucket to its
 * owner. Averages are therefore exact for any number of servers. By trainer (the layout of the
 * PyTorch benchmarks that bench/ repeats): a trainer sends all buckets to one server, and a server
 * averages only its own trainers. The assignments are pure functions of the arguments, so every
 * process computes the same assignment.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Distributes buckets over servers by size: the largest first, each to the server with the fewest
 * bytes so far (ties: the lower bucket, the lower server).
 *
 *   n_bytes    [n_buckets], >= 0, borrowed for the call
 *   n_servers  >= 1
 *   owners     [n_buckets], owned by the caller: the server of each bucket, in [0, n_servers)
 *
 * Thread: any. */
void tps_partition_buckets (const gint64 *n_bytes, guint n_buckets, guint n_servers, guint *owners);

/* Returns the server of a trainer. Servers have contiguous blocks of trainers, whose sizes differ
 * by one at most. If n_servers divides n_trainers, the server is trainer / (n_trainers /
 * n_servers). Thread: any. */
guint tps_partition_find_server (guint trainer, guint n_trainers, guint n_servers);

/* Returns the trainers [*first, *first + *n) of a server; *n is 0 for some servers if there are
 * more servers than trainers. A server of this layout counts its trainers from 0: trainer - *first.
 * Thread: any. */
void tps_partition_get_trainers (guint server, guint n_trainers, guint n_servers, guint *first,
                                 guint *n);

G_END_DECLS
