/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The part of TpsServer (thriftps/plugin.h) that is not public. */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/access/access.h"
#include "plugin/server/connection_info.h"
#include "plugin/service/call.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/fault.h"
#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/budgets.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

typedef struct TpsCommonSegments TpsCommonSegments; /* plugin/memory/common_segments.h */

/* Parts that the creator of a server may provide; all may be NULL. */
struct TpsServerParts
{
  TpsWorkerPool *workers; /* borrowed, must outlive the server; NULL = a pool of its own */
  /* The budgets charged for memory that peers make the server use: borrowed, must outlive the
   * server. NULL = the server creates its own, with `max_pending_bytes` and the default limits. */
  const TpsBudgets *budgets;
  /* The device to which bodies are copied; NULL = none. Bodies of 64 KiB and more are received into
   * page-locked memory, which the device reads directly. The server keeps page-locked memory for
   * reuse, up to half of the limit of pending requests. It also shares memory of the device with
   * clients if possible. Shared memory of the device has limits of its own, as large as those of
   * shared host memory. */
  TpsDevice *device;
  /* TRUE: the shared memory of the device holds results of lookups only, because gradients are
   * averaged in host memory or on a different device. */
  gboolean device_for_lookups_only;
  /* Segments that several clients may map; a reference is taken. NULL = none. Must be NULL if
   * clients have different rights. */
  TpsCommonSegments *common_segments;
  /* Receives the counts of requests and connections; a reference is taken; NULL = nothing is
   * counted. */
  TpsMetrics *metrics;
  /* The tenants of principals and their limits; a reference is taken. NULL = there are no
   * limits. */
  TpsQuotas *quotas;
  TpsTracer *tracer;    /* times calls; borrowed, must outlive the server; NULL = none */
  TpsFaultPlan *faults; /* injected into messages; borrowed, must outlive the server; NULL = none */
};

/* Returns the pool for the long work of handlers; borrowed, and valid as long as the server. NULL =
 * the system has refused its threads; the start then fails. */
TpsWorkerPool *tps_server_get_workers (TpsServer *server);

/* Returns the pool of received bodies, borrowed; it is charged to the budget `pending`. */
TpsBufferPool *tps_server_get_bodies (TpsServer *server);

/* Returns the limit of a frame, as given in the options or by default. */
gsize tps_server_get_max_frame_bytes (TpsServer *server);

/* The state of a server at one moment. */
typedef struct
{
  guint n_io_threads;
  guint n_connections, max_connections;
  guint n_calls;        /* without a reply */
  gboolean is_running;  /* a start succeeded; stays TRUE after the stop, see is_draining */
  gboolean is_draining; /* during and after the stop */
} TpsServerStatus;

void tps_server_get_status (TpsServer *server, TpsServerStatus *status);

/* Lists at most `n_max` connections with ids above `after` (0 = all ids), in ascending order. If
 * the list has fewer than `n_max` elements, it is complete. Returns an array of TpsConnectionInfo
 * that clears its elements, owned by the caller. Requests never wait for this function. A
 * connection that begins or ends may wait while the function takes references to 256 connections.
 * Thread: any. */
GArray *tps_server_list_connections (TpsServer *server, guint64 after, guint n_max);

G_END_DECLS
