/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limit of lookups: reads rows in the order of given ids, with prefetching, and adds all of
 * them in registers. There are no bags, and nothing is written. (A copy of the rows to a buffer in
 * the first-level cache takes a quarter longer.) */

#pragma once

#include <glib.h>

/* Reads the rows of `ids` [n] of `table` [rows, dim]. Thread: any. */
void tps_lookup_gather (const gfloat *table, const gint64 *ids, gsize n, gsize dim);
