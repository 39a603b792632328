/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Groups the positions of equal ids by a stable sort: groups are in ascending order of their ids,
 * and the positions of an id keep their order. */

#pragma once

#include <glib.h>

/* Group u has id ids[u] and positions order[starts[u]] … order[starts[u + 1] - 1]. */
typedef struct
{
  gsize n_groups;
  gint64 *ids;   /* [n_groups], ascending */
  gsize *starts; /* [n_groups + 1] */
  gsize *order;  /* [n_ids] */
} TpsCpuGroups;

/* Finds the groups of `ids` [n_ids], which must be >= 0. `memory` of TPS_CPU_GROUPS_BYTES * (n_ids
 * + 1) bytes, aligned to 8, must outlive `groups`, which needs no clearing. Thread: any. */
#define TPS_CPU_GROUPS_BYTES 56
void tps_cpu_groups_init (TpsCpuGroups *groups, gpointer memory, const gint64 *ids, gsize n_ids);

/* As tps_cpu_groups_init(), but allocates. Owned by the caller (tps_cpu_groups_free()). Linear in
 * n_ids times the digits of the largest id. Aborts without memory. Thread: any. */
TpsCpuGroups *tps_cpu_groups_new (const gint64 *ids, gsize n_ids);
void tps_cpu_groups_free (TpsCpuGroups *groups);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCpuGroups, tps_cpu_groups_free)
