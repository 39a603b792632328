/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state shared by the connections of one server: limits, services, counts. It lives until the
 * last call is answered, which may be after the server has been freed. Inside plugin/server only.
 */

#pragma once

#include "plugin/access/access.h"
#include "plugin/host/host_service.h"
#include "plugin/net/connection.h"
#include "plugin/memory/common_segments.h"
#include "plugin/net/tls/tls_acceptor.h"
#include "plugin/service/dispatch.h"
#include "plugin/service/chunks/chunk_service.h"
#include "runtime/base/fault.h"
#include "runtime/device/backend.h"
#include "runtime/base/metrics.h"
#include "runtime/base/sync.h"
#include "runtime/server/budgets.h"
#include "runtime/server/quota/quotas.h"

typedef struct
{
  gsize max_frame_bytes;
  gsize max_head_bytes;
  gsize max_queued_bytes; /* unread replies of one connection */
  guint max_in_flight;    /* outstanding calls of one connection */
  guint max_connections;
  gsize max_shared_bytes;   /* of one connection; 0 = memory is not shared */
  TpsDevice *shared_device; /* its memory is also shared; NULL = no device */
  gboolean device_for_lookups_only;
  guint max_half_closed; /* in addition to max_connections, see tps_server_core_is_full() */
  TpsConnectionPatience patience;
  gint64 check_ns; /* between two checks of a connection's progress */
} TpsServerLimits;

/* Counts of the server; all NULL if it has no metrics. */
typedef struct
{
  TpsCounter *accepted;
  TpsCounter *refused;
  TpsGauge *open;
  TpsCounter *received_bytes; /* like sent_bytes, not counting the bytes of encryption */
  TpsCounter *sent_bytes;
} TpsServerCounts;

/* All sessions of a server by their ids, for reports. Thread: any. */
typedef struct
{
  TpsMutex lock;   /* guards the fields below; no other lock is taken under it */
  GArray *entries; /* of private entries, in the order of their ids */
  guint64 last_id;
} TpsSessionList;

typedef struct
{
  TpsRefcount refcount;
  TpsServerLimits limits;
  TpsMetrics *metrics; /* NULL = none */
  TpsServerCounts counts;
  TpsDispatcher *dispatcher; /* set before the first connection */
  TpsChunks *chunks;         /* as `dispatcher`; NULL if a service of this name was added */
  GPtrArray *host_services;  /* of TpsHostService; the dispatcher borrows from them */
  TpsBufferPool *bodies;
  TpsBufferPool *strangers_bodies;    /* of peers without rights */
  TpsCommonSegments *common_segments; /* a reference; NULL = none */
  TpsBudget *replies;                 /* charged for replies until they are sent */
  TpsBudget *segments;                /* of all connections */
  TpsBudget *segments_on_device;      /* for memory of the device, with a limit of its own */
  TpsWorkerPool *workers;             /* borrowed */
  TpsTlsAcceptor *tls;    /* NULL = connections are plain. Set before the first connection */
  TpsAccess *access;      /* a reference, set before the first connection; NULL = no checks */
  TpsQuotas *quotas;      /* a reference, set before the first connection; NULL = no limits */
  TpsFaultPlan *faults;   /* borrowed; NULL = none. Set before the first connection */
  TpsTracer *tracer;      /* borrowed; NULL = none. Set before the first connection */
  GError *stopping_error; /* refuses calls while `stopping` */
  atomic_bool stopping;

  TpsSessionList sessions;   /* all open sessions */
  atomic_uint n_calls;       /* without a reply, of all connections, including lost ones */
  atomic_uint n_connections; /* accepted and not yet closed */
  atomic_uint n_half_closed; /* of these, with peers that send no more */
  TpsMutex lock;             /* for `changed` alone */
  TpsCond changed;           /* signalled while stopping when one of the counts becomes zero */
} TpsServerCore;

/* Creates a core with one reference. Takes references to the budgets. Bodies are allocated so that
 * copies to `device` are fast; NULL = no device. `metrics` may be NULL. */
TpsServerCore *tps_server_core_new (const TpsServerLimits *limits, const TpsBudgets *budgets,
                                    TpsDevice *device, TpsMetrics *metrics);
TpsServerCore *tps_server_core_ref (TpsServerCore *core);
void tps_server_core_unref (TpsServerCore *core);

/* Returns TRUE if the limit of connections is reached. Half-closed connections do not count,
 * because a peer that has left must not occupy a place until its calls have ended. Half-closed
 * connections have a limit of their own. */
gboolean tps_server_core_is_full (TpsServerCore *core);

/* Decrements `count`, which must be `n_calls` or `n_connections` of this core. */
void tps_server_core_drop (TpsServerCore *core, atomic_uint *count);

/* Waits until `count` is zero, only while stopping. FALSE: `deadline_ns` has passed. */
gboolean tps_server_core_wait_for_none (TpsServerCore *core, atomic_uint *count,
                                        gint64 deadline_ns);

/* ---- list of sessions ----------------------------------------------------------------------- */

/* Adds `session`, which is borrowed until its removal. Returns its id, which is greater than the
 * ids of all earlier sessions. */
guint64 tps_session_list_add (TpsSessionList *list, gpointer session);
void tps_session_list_remove (TpsSessionList *list, guint64 id);

/* Sets `sessions`, [n_max], to the sessions with the next ids above `after`, and returns their
 * number. If the number is below `n_max`, there are no more sessions. `ref` is called for each
 * session, with the lock held. Connections that begin or end wait meanwhile, so `n_max` should not
 * exceed a few hundred. */
guint tps_session_list_ref_next (TpsSessionList *list, guint64 after, gpointer *sessions,
                                 guint n_max, void (*ref) (gpointer session));
