/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* NCCL, loaded when the first process group is asked for: its library is far larger than everything
 * else, and lies where the machine has it (cuda/device/search.h). */

#pragma once

#include <glib.h>
#include <nccl.h>

G_BEGIN_DECLS

/* The functions in use, as their header declares them. */
typedef struct
{
  gint version; /* of the library, as NCCL_VERSION() counts */
  __typeof__ (&ncclGetVersion) get_version;
  __typeof__ (&ncclGetUniqueId) get_unique_id;
  __typeof__ (&ncclGetErrorString) get_error_string;
  __typeof__ (&ncclGetLastError) get_last_error;
  __typeof__ (&ncclCommInitRankConfig) comm_init_rank_config;
  __typeof__ (&ncclCommGetAsyncError) comm_get_async_error;
  __typeof__ (&ncclCommFinalize) comm_finalize;
  __typeof__ (&ncclCommDestroy) comm_destroy;
  __typeof__ (&ncclCommAbort) comm_abort;
  __typeof__ (&ncclAllReduce) all_reduce;
  __typeof__ (&ncclAllGather) all_gather;
  __typeof__ (&ncclBroadcast) broadcast;
} TpsNccl;

/* Loads `name` and fills `nccl`. Errors: UNAVAILABLE: what is missing where, or that the library is
 * too old for communicators that do not block. Thread: any. */
gboolean tps_nccl_load (TpsNccl *nccl, const gchar *name, GError **error);

/* The process's own, loaded at the first call and kept. NULL with UNAVAILABLE, every time.
 * Borrowed. Thread: any. */
const TpsNccl *tps_nccl_get (GError **error);

G_END_DECLS
