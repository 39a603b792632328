/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A system under test and its processes: one for each rank, or a single one. */

#pragma once

#include "bench/process/child.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_ALL_REDUCE_PLACED,  /* our group, data in its memory */
  TPS_ALL_REDUCE_SHARED,  /* our group, other data through shared memory */
  TPS_ALL_REDUCE_TCP,     /* our group through sockets */
  TPS_ALL_REDUCE_PYTORCH, /* torch.distributed with Gloo */
  TPS_ALL_REDUCE_MEMORY,  /* the limit */
} TpsAllReduceKind;

#define TPS_ALL_REDUCE_N_KINDS 5

/* Returns the name, such as "shared memory". Static. */
const gchar *tps_all_reduce_kind_name (TpsAllReduceKind kind);

typedef struct TpsAllReduceSystem TpsAllReduceSystem;

/* Starts the processes of a system; `store` is the address of our ranks' store. Owned by the
 * caller. Errors (NULL): TPS_ERROR_UNAVAILABLE naming the program that cannot be started. */
TpsAllReduceSystem *tps_all_reduce_system_start (TpsSupervisor *supervisor, TpsAllReduceKind kind,
                                                 guint size, const gchar *store, GError **error);
void tps_all_reduce_system_free (TpsAllReduceSystem *system);

TpsAllReduceKind tps_all_reduce_system_get_kind (const TpsAllReduceSystem *system);

/* Returns the version of PyTorch; NULL for other systems. Borrowed. */
const gchar *tps_all_reduce_system_get_version (const TpsAllReduceSystem *system);

/* Returns the seconds of one all-reduce on the slowest rank, averaged over all calls; negative with
 * an error. */
gdouble tps_all_reduce_system_run (TpsAllReduceSystem *system, gsize n_bytes, guint n_calls,
                                   GError **error);

G_END_DECLS
