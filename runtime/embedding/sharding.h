/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The distribution of the rows of a table over shards: the whole table, a range of rows, or the
 * rows that a hash assigns to one of `shard_count` shards.
 *
 * Hash sharding needs no index, because the hash is a bijection of [0, rows). Row r has number p =
 * permute (r, rows). It lies in shard p mod shard_count, in slot p / shard_count. The sizes of
 * shards therefore differ by at most one row.
 *
 * permute (r, rows), rows >= 1: let k be the number of bits of rows - 1 (1 at least), mask = 2^k -
 * 1, h = max (k / 2, 1). Mix x within k bits,
 *
 *   x ^= x >> h;  x = x * 0x9E3779B97F4A7C15 & mask;
 *   x ^= x >> h;  x = x * 0xBF58476D1CE4E5B9 & mask;
 *   x ^= x >> h,
 *
 * starting from x = r and repeating until x < rows. Each step is a bijection of k bits (the factors
 * are odd), so the walk ends, after fewer than two rounds on average. Test vectors:
 * tests/runtime/server/tables/sharding_vectors.txt.
 */

#pragma once

#include <thriftps/tables.h>

G_BEGIN_DECLS

typedef struct
{
  TpsShardKind kind;
  gint64 rows;      /* of the whole table, >= 1 */
  gint64 first_row; /* RANGE */
  gint64 n_rows;    /* in this shard */
  gint32 index;     /* HASH: in [0, count) */
  gint32 count;
} TpsShard;

/* Initialises the shard of the whole table. `rows` must be >= 1. */
void tps_shard_init_whole (TpsShard *shard, gint64 rows);

/* Initialise a shard. `n_rows` -1 means up to the end of the table. Errors:
 * TPS_ERROR_INVALID_ARGUMENT; the message names the value. */
gboolean tps_shard_init_range (TpsShard *shard, gint64 rows, gint64 first_row, gint64 n_rows,
                               GError **error);
gboolean tps_shard_init_hash (TpsShard *shard, gint64 rows, gint32 index, gint32 count,
                              GError **error);

gboolean tps_shard_equal (const TpsShard *a, const TpsShard *b);

/* Returns the slot of `row`, which must be in [0, rows), or -1 if the row lies in another shard. */
gint64 tps_shard_get_slot (const TpsShard *shard, gint64 row);
gint64 tps_shard_get_row (const TpsShard *shard, gint64 slot);

/* Returns the affine function from slots to numbers of rows: slot s holds row first + s * stride, a
 * global id; in a shard by hash, permute (id, rows). */
void tps_shard_get_numbers (const TpsShard *shard, gint64 *first, gint64 *stride);

/* Return the image of a number in [0, rows) under the bijection above, and under its inverse. */
gint64 tps_shard_permute (gint64 row, gint64 rows);
gint64 tps_shard_unpermute (gint64 number, gint64 rows);

/* Divides a table by range into `count` shards: shard i has rows [i * rows / count, (i + 1) * rows
 * / count), rounded down. Returns the first row of shard `index`. */
gint64 tps_shard_range_begin (gint64 rows, gint32 index, gint32 count);

G_END_DECLS
