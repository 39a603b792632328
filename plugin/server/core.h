/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the connections of one server share: limits, services, counts. Lives until the last call is
 * answered, which may be after the server is gone. Inside plugin/server only.
 */

#pragma once

#include "plugin/access/access.h"
#include "plugin/host/host_service.h"
#include "plugin/net/connection.h"
#include "plugin/net/tls/tls_acceptor.h"
#include "plugin/service/carrier.h"
#include "plugin/server/session_list.h"
#include "plugin/service/chunks/chunk_service.h"
#include "runtime/base/fault.h"
#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"
#include "runtime/base/sync.h"
#include "runtime/server/budgets.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

typedef struct
{
  gsize max_frame_bytes;
  gsize max_head_bytes;
  gsize max_queued_bytes; /* answers of one connection that its peer has not taken */
  guint max_in_flight;    /* calls of one connection */
  guint max_connections;
  gsize max_shared_bytes;   /* of one connection; 0 = memory is not shared */
  TpsDevice *shared_device; /* whose memory is shared too; NULL = none's */
  guint max_half_closed;    /* connections besides max_connections, see tps_server_core_is_full() */
  TpsConnectionPatience patience;
  gint64 check_ns; /* between two looks at the progress of a connection */
} TpsServerLimits;

/* All NULL where the server was given no metrics. */
typedef struct
{
  TpsCounter *accepted;
  TpsCounter *refused;
  TpsGauge *open;
  TpsCounter *received_bytes; /* before encryption, both */
  TpsCounter *sent_bytes;
} TpsServerCounts;

typedef struct
{
  TpsRefcount refcount;
  TpsServerLimits limits;
  TpsMetrics *metrics; /* NULL = none */
  TpsServerCounts counts;
  TpsDispatcher *dispatcher; /* set before the first connection */
  TpsChunks *chunks;         /* the same; NULL where a service of that name was given */
  GPtrArray *host_services;  /* of TpsHostService: services of the dispatcher borrow from them */
  TpsBufferPool *bodies;
  TpsBudget *replies;            /* charged for replies that have not been sent */
  TpsBudget *segments;           /* of all connections */
  TpsBudget *segments_on_device; /* the same in the device's memory, with a limit of their own */
  TpsWorkerPool *workers;        /* borrowed */
  TpsTlsAcceptor *tls;           /* NULL = connections are plain. Set before the first connection */
  TpsAccess *access;             /* a reference; NULL = nothing is checked. The same */
  TpsQuotas *quotas;             /* a reference; NULL = callers have no limits. The same */
  TpsFaultPlan *faults;          /* borrowed; NULL = none. Set before the first connection */
  TpsTracer *tracer;             /* the same */
  GError *stopping_error;        /* what calls are refused with while `stopping` */
  atomic_bool stopping;

  TpsSessionList sessions;   /* that are open */
  atomic_uint n_calls;       /* not yet answered, of all connections, lost ones too */
  atomic_uint n_connections; /* accepted and not yet gone */
  atomic_uint n_half_closed; /* of these, whose peers send no more */
  TpsMutex lock;             /* for `changed` alone */
  TpsCond changed;           /* while stopping: one of the counts came to zero */
} TpsServerCore;

/* References of the budgets are taken. `device` may be NULL: whose copies bodies are the source of.
 * So may `metrics`. */
TpsServerCore *tps_server_core_new (const TpsServerLimits *limits, const TpsBudgets *budgets,
                                    TpsDevice *device, TpsMetrics *metrics);
TpsServerCore *tps_server_core_ref (TpsServerCore *core);
void tps_server_core_unref (TpsServerCore *core);

/* Whether there are as many connections as there may be. Those whose peers send no more do not
 * count: a peer that has left must not keep a place until its calls have ended. They have a limit
 * of their own. */
gboolean tps_server_core_is_full (TpsServerCore *core);

/* Takes one off a count. */
void tps_server_core_drop (TpsServerCore *core, atomic_uint *count);

/* Waits until the count is zero; FALSE when `deadline_ns` comes first. Only while stopping. */
gboolean tps_server_core_wait_for_none (TpsServerCore *core, atomic_uint *count,
                                        gint64 deadline_ns);

G_END_DECLS
