/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A system under test and its processes: one process for each rank, or a single process. */

#pragma once

#include "bench/process/child.h"

G_BEGIN_DECLS

/* The systems. */
typedef enum
{
  TPS_ALL_REDUCE_PLACED,  /* our group; the data are in its memory */
  TPS_ALL_REDUCE_SHARED,  /* our group; other data, through shared memory */
  TPS_ALL_REDUCE_TCP,     /* our group, through sockets */
  TPS_ALL_REDUCE_PYTORCH, /* torch.distributed with Gloo */
  TPS_ALL_REDUCE_MEMORY,  /* the limit of memory, see tps_all_reduce_run_limit() */
} TpsAllReduceKind;

#define TPS_ALL_REDUCE_N_KINDS 5

/* Returns the name, such as "shared memory". Static. */
const gchar *tps_all_reduce_kind_name (TpsAllReduceKind kind);

typedef struct TpsAllReduceSystem TpsAllReduceSystem;

/* Starts the processes of a system with `size` ranks. `store` is the address of the store of our
 * ranks, or the path of PyTorch's file store. The caller owns the result. Blocks. Errors (NULL):
 * UNAVAILABLE, with the name of the program that cannot be started. */
TpsAllReduceSystem *tps_all_reduce_system_start (TpsSupervisor *supervisor, TpsAllReduceKind kind,
                                                 guint size, const gchar *store, GError **error);
void tps_all_reduce_system_free (TpsAllReduceSystem *system);

/* Returns the kind of the system. */
TpsAllReduceKind tps_all_reduce_system_get_kind (const TpsAllReduceSystem *system);

/* Returns the PyTorch version; NULL for other systems. Borrowed. */
const gchar *tps_all_reduce_system_get_version (const TpsAllReduceSystem *system);

/* Returns the seconds of one all-reduce of `n_bytes`, a mean over all calls, on the slowest rank;
 * negative with an error. Blocks. */
gdouble tps_all_reduce_system_run (TpsAllReduceSystem *system, gsize n_bytes, guint n_calls,
                                   GError **error);

G_END_DECLS
