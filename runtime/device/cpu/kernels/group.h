/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Groups the positions of equal ids by a stable sort: ids are ascending, and the positions of an id
 * keep their order. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Group u has id ids[u] and positions order[starts[u]] … order[starts[u + 1] - 1]. */
typedef struct
{
  gsize n_groups;
  gint64 *ids;   /* [n_groups], ascending */
  gsize *starts; /* [n_groups + 1] */
  gsize *order;  /* [n_ids] */
} TpsCpuGroups;

/* Finds groups in the caller's memory: TPS_CPU_GROUPS_BYTES for each of n_ids + 1 elements, aligned
 * to 8 bytes. The memory must outlive `groups`; `groups` itself needs no clearing. `ids` must be >=
 * 0. Thread: any. */
#define TPS_CPU_GROUPS_BYTES 56
void tps_cpu_groups_init (TpsCpuGroups *groups, gpointer memory, const gint64 *ids, gsize n_ids);

/* Finds groups in memory of their own, which the caller must free with tps_cpu_groups_free().
 * Linear in n_ids times the number of digits of the largest id. Aborts if memory runs out. Thread:
 * any. */
TpsCpuGroups *tps_cpu_groups_new (const gint64 *ids, gsize n_ids);
void tps_cpu_groups_free (TpsCpuGroups *groups);

/* Returns TRUE if the ids are already ascending and unique. */
gboolean tps_cpu_ids_are_ascending (const gint64 *ids, gsize n_ids);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCpuGroups, tps_cpu_groups_free)

G_END_DECLS
