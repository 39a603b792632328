/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pooling rows of a table that other threads may be changing. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/server/tables/host/table.h"

/* A checked query; all members are borrowed. The slot of index i is slots[i] - base. */
typedef struct
{
  TpsTable *table;
  const gint64 *slots; /* [n_indices] */
  gint64 base;
  gsize n_indices;
  const gint64 *offsets; /* [n_bags] */
  gsize n_bags;
  const gfloat *weights; /* [n_indices], or NULL */
  TpsPooling pooling;
} TpsTableBags;

/* Returns the size of `stage`, in bytes, that tps_table_pool_bags() needs for rows of this table; 0
 * for rows that are not wide. */
gsize tps_table_pool_get_stage_bytes (const TpsTable *table);

/* Pools bags [begin, end) into `output` [end - begin, dim], with the same bits as
 * tps_cpu_embedding_pool(), in the given order of indices. No other call may use `stage` meanwhile.
 * Thread: any. */
void tps_table_pool_bags (const TpsTableBags *bags, gsize begin, gsize end, gfloat *output,
                          gpointer stage);
