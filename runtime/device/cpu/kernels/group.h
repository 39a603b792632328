/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Positions of equal ids, found by a stable sort: ids ascending, positions within an id in the
 * order given. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Group u is id ids[u] at positions order[starts[u]] … order[starts[u + 1] - 1]. */
typedef struct
{
  gsize n_groups;
  gint64 *ids;   /* [n_groups], ascending */
  gsize *starts; /* [n_groups + 1] */
  gsize *order;  /* [n_ids] */
} TpsCpuGroups;

/* Finds groups in the caller's memory, TPS_CPU_GROUPS_BYTES for each of n_ids + 1 elements, aligned
 * to 8 bytes. It must stay as long as `groups`; nothing is to be freed. `ids` >= 0. Thread: any. */
#define TPS_CPU_GROUPS_BYTES 56
void tps_cpu_groups_init (TpsCpuGroups *groups, gpointer memory, const gint64 *ids, gsize n_ids);

/* The same in memory of its own, owned by the caller: tps_cpu_groups_free(). Linear in n_ids times
 * the digits of the largest id. Aborts when there is no memory. Thread: any. */
TpsCpuGroups *tps_cpu_groups_new (const gint64 *ids, gsize n_ids);
void tps_cpu_groups_free (TpsCpuGroups *groups);

/* Whether the ids are ascending and unique already. */
gboolean tps_cpu_ids_are_ascending (const gint64 *ids, gsize n_ids);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCpuGroups, tps_cpu_groups_free)

G_END_DECLS
