/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One system that sums up: its processes, one a rank or one alone. */

#pragma once

#include "bench/process/child.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_ALL_REDUCE_SHARED,  /* our group, through shared memory */
  TPS_ALL_REDUCE_TCP,     /* our group, through sockets */
  TPS_ALL_REDUCE_PYTORCH, /* torch.distributed on Gloo */
  TPS_ALL_REDUCE_MEMORY,  /* the limit */
} TpsAllReduceKind;

#define TPS_ALL_REDUCE_N_KINDS 4

/* "shared memory"; static. */
const gchar *tps_all_reduce_kind_name (TpsAllReduceKind kind);

typedef struct TpsAllReduceSystem TpsAllReduceSystem;

/* `store`: where our ranks meet. Errors: TPS_ERROR_UNAVAILABLE, naming what cannot be started. */
TpsAllReduceSystem *tps_all_reduce_system_start (TpsSupervisor *supervisor, TpsAllReduceKind kind,
                                                 guint size, const gchar *store, GError **error);
void tps_all_reduce_system_free (TpsAllReduceSystem *system);

TpsAllReduceKind tps_all_reduce_system_get_kind (const TpsAllReduceSystem *system);

/* Of PyTorch; NULL for others. Borrowed. */
const gchar *tps_all_reduce_system_get_version (const TpsAllReduceSystem *system);

/* Seconds of one all-reduce: those of the slowest rank, over all calls. Below 0 with an error. */
gdouble tps_all_reduce_system_run (TpsAllReduceSystem *system, gsize n_bytes, guint n_calls,
                                   GError **error);

G_END_DECLS
