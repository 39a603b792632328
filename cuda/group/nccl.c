/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/group/nccl.h"

#include "cuda/device/search.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* The first version with ncclCommInitRankConfig() and ncclCommFinalize(). */
#define OLDEST_VERSION NCCL_VERSION (2, 14, 0)

gboolean
tps_nccl_load (TpsNccl *nccl, const gchar *name, GError **error)
{
  const TpsCudaFunction functions[] = {
    { "ncclGetVersion", &nccl->get_version, sizeof nccl->get_version },
    { "ncclGetUniqueId", &nccl->get_unique_id, sizeof nccl->get_unique_id },
    { "ncclGetErrorString", &nccl->get_error_string, sizeof nccl->get_error_string },
    { "ncclGetLastError", &nccl->get_last_error, sizeof nccl->get_last_error },
    { "ncclCommInitRankConfig", &nccl->comm_init_rank_config, sizeof nccl->comm_init_rank_config },
    { "ncclCommGetAsyncError", &nccl->comm_get_async_error, sizeof nccl->comm_get_async_error },
    { "ncclCommFinalize", &nccl->comm_finalize, sizeof nccl->comm_finalize },
    { "ncclCommDestroy", &nccl->comm_destroy, sizeof nccl->comm_destroy },
    { "ncclCommAbort", &nccl->comm_abort, sizeof nccl->comm_abort },
    { "ncclAllReduce", &nccl->all_reduce, sizeof nccl->all_reduce },
    { "ncclAllGather", &nccl->all_gather, sizeof nccl->all_gather },
    { "ncclBroadcast", &nccl->broadcast, sizeof nccl->broadcast },
  };

  nccl->version = 0;
  if (!tps_cuda_search_library (name, functions, G_N_ELEMENTS (functions), error))
    return FALSE;
  if (nccl->get_version (&nccl->version) == ncclSuccess && nccl->version >= OLDEST_VERSION)
    return TRUE;
  return tps_fail (error, TPS_ERROR_UNAVAILABLE, "%s is version %d, expected at least %d", name,
                   nccl->version, OLDEST_VERSION);
}

static TpsNccl own;
static GError *own_error; /* the reason why the library cannot be used; NULL = it can */

static void
load_own (void)
{
  tps_nccl_load (&own, "libnccl.so." G_STRINGIFY (NCCL_MAJOR), &own_error);
}

const TpsNccl *
tps_nccl_get (GError **error)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  tps_sync_check (pthread_once (&once, load_own));
  if (own_error == NULL)
    return &own;
  return tps_fail_null (error, TPS_ERROR_UNAVAILABLE, "no NCCL: %s", own_error->message);
}
