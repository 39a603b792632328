/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which server averages what.
 *
 * By bucket: a bucket has one owner among all servers and every trainer sends it there, so that
 * averages are exact for any number of servers. By trainer (the originals' layout): a trainer sends
 * everything to one server, and a server averages its own trainers only. All of it is a pure
 * function of the arguments: every process computes the same.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Spreads buckets over servers by size: the largest first, each to the server that has the fewest
 * bytes so far (ties: the lower bucket, the lower server).
 *
 * n_bytes    [n_buckets], >= 0, borrowed for the call
 * n_servers  >= 1
 * owners     [n_buckets], owned by the caller: the server of each bucket, in [0, n_servers)
 * Thread: any. */
void tps_partition_buckets (const gint64 *n_bytes, guint n_buckets, guint n_servers, guint *owners);

/* The server of a trainer: contiguous blocks of trainers, their sizes one apart at most. Where
 * n_servers divides n_trainers this is trainer / (n_trainers / n_servers). Thread: any. */
guint tps_partition_find_server (guint trainer, guint n_trainers, guint n_servers);

/* The trainers [*first, *first + *n) of a server; none where there are more servers than trainers
 * and it is left over. A server of this layout counts its trainers from 0: trainer - *first.
 * Thread: any. */
void tps_partition_get_trainers (guint server, guint n_trainers, guint n_servers, guint *first,
                                 guint *n);

G_END_DECLS
