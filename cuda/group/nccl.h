/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* NCCL, loaded for the first process group. Its library is far larger than this one, so it is not
 * bundled. The installed library is used (cuda/device/search.h). */

#pragma once

#include <glib.h>
#include <nccl.h>

G_BEGIN_DECLS

/* The functions in use, with the types in nccl.h. */
typedef struct
{
  gint version; /* of the library, in the encoding of NCCL_VERSION() */
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

/* Loads the library `name` and fills `nccl`. Errors: UNAVAILABLE, also for a version without
 * non-blocking communicators; if the library or a function is missing, the message names it and the
 * places searched. Thread: any. */
gboolean tps_nccl_load (TpsNccl *nccl, const gchar *name, GError **error);

/* Returns the NCCL of the process, borrowed; it is loaded at the first call and kept. Errors
 * (NULL): UNAVAILABLE, then at every call. Thread: any. */
const TpsNccl *tps_nccl_get (GError **error);

G_END_DECLS
