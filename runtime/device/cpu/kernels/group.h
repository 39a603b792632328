/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Groups the positions of equal ids by a stable sort: groups are in ascending order of their ids,
 * and the positions of an id keep their order. */

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

/* Finds the groups of `ids` [n_ids], which must be >= 0. The caller must provide `memory` of
 * TPS_CPU_GROUPS_BYTES * (n_ids + 1) bytes, aligned to 8 bytes. It must outlive `groups`, which
 * needs no clearing. Thread: any. */
#define TPS_CPU_GROUPS_BYTES 56
void tps_cpu_groups_init (TpsCpuGroups *groups, gpointer memory, const gint64 *ids, gsize n_ids);

/* As tps_cpu_groups_init(), but allocates the memory. The caller owns the groups and must free them
 * with tps_cpu_groups_free(). The time is linear in n_ids times the number of digits of the largest
 * id. Aborts if memory runs out. Thread: any. */
TpsCpuGroups *tps_cpu_groups_new (const gint64 *ids, gsize n_ids);
void tps_cpu_groups_free (TpsCpuGroups *groups);

/* Returns TRUE if the ids are already ascending and unique. */
gboolean tps_cpu_ids_are_ascending (const gint64 *ids, gsize n_ids);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCpuGroups, tps_cpu_groups_free)

G_END_DECLS
