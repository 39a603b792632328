/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call on its way through a service, and the table that a service is.
 *
 * A handler is three steps: decode the arguments, one runtime call, encode the result. It is given
 * a call, and answers it exactly once, now or later, from any thread: tps_call_reply_*(). Who
 * carries the call (our server's connection, or a host's ThriftProcessor) implements the few
 * functions below; handlers do not know which.
 */

#pragma once

#include "plugin/access/grant.h"
#include "plugin/frame/message.h"
#include "plugin/frame/reader.h"
#include "plugin/frame/writer.h"
#include "plugin/memory/segment_registry.h"
#include "plugin/wire/rpc.h"
#include "runtime/base/phases.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/quota/tenant.h"

G_BEGIN_DECLS

typedef struct TpsCall TpsCall;

/* Writes the success value of a result (the field with id 0, tps_writer_field() included; nothing
 * for void). */
typedef void (*TpsWriteResult) (TpsWriter *out, gconstpointer user_data);

/* The arguments; the reader stands before the arguments struct. Valid until the call is
 * answered. */
void tps_call_get_arguments (TpsCall *call, TpsReader *in);

/* Reads them as the method's descriptor says. Errors: INVALID_ARGUMENT. */
gboolean tps_call_read_arguments (TpsCall *call, gpointer arguments, GError **error);

/* Charges `n_bytes` of memory that the handler takes to the call, until it is answered. Errors:
 * RESOURCE_EXHAUSTED. */
gboolean tps_call_charge (TpsCall *call, gsize n_bytes, GError **error);

/* The tenant in whose name the call is made, borrowed; NULL = the carrier limits nobody. */
TpsTenant *tps_call_get_tenant (TpsCall *call);

/* Charges the call's tenant for rows that the handler is about to read or change. Does nothing
 * without a tenant. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_add_rows (TpsCall *call, guint64 n_rows, GError **error);

/* Whether the call may be answered later. FALSE under servers that would block all their clients: a
 * handler that would have to wait for others then answers UNAVAILABLE. */
gboolean tps_call_may_wait (TpsCall *call);

/* Who calls, for the log; NULL = not known. Borrowed until the call is answered. */
const gchar *tps_call_get_peer (TpsCall *call);

/* The principal that calls, never NULL: anonymous where the carrier knows no peers. Borrowed until
 * the call is answered, whoever the connection authenticates as meanwhile. */
const TpsPrincipal *tps_call_get_principal (TpsCall *call);

/* Makes later calls of the connection those of the owner of `token`. Errors: UNAUTHENTICATED (no
 * such token), UNAVAILABLE (this server or this connection takes no tokens). */
gboolean tps_call_authenticate (TpsCall *call, const gchar *token, GError **error);

/* Whether the caller may use `table` with this right; its method has been checked before. Must be
 * called for each name of a table before it is looked for. NULL `table` = every table that there is
 * or will be. Errors: PERMISSION_DENIED, UNAUTHENTICATED; the same whether there is such a
 * table. */
gboolean tps_call_check_table (TpsCall *call, const gchar *table, TpsRight right, GError **error);

/* The same for lists of names, which leave out what the caller may not use. */
gboolean tps_call_may_see_table (TpsCall *call, const gchar *table);

/* What the caller may do, borrowed until the call is answered; NULL = everything. */
const TpsGrant *tps_call_get_grant (TpsCall *call);

/* The arrival of the call (tps_clock_now_ns()); 0 where calls are not counted. */
gint64 tps_call_get_began_ns (const TpsCall *call);

/* Makes `context`, of which a reference is taken, stand for headers that later calls of the
 * connection lack; NULL = nothing does. The caller must not change it any more. Errors: UNAVAILABLE
 * (this server does not keep connections). */
gboolean tps_call_set_context (TpsCall *call, GHashTable *context, GError **error);

/* What the call does from now on, for those who time it: see runtime/base/phases.h. Decoding,
 * queues of workers and writing the result are noted by the functions here; a handler notes what
 * waits for other calls, before it hands the call over. */
void tps_call_enter_phase (TpsCall *call, TpsPhase phase);

/* The times of the call, for work that notes its phases itself; NULL = it is not timed. Borrowed
 * until the call is answered. */
TpsPhases *tps_call_get_phases (TpsCall *call);

/* The memory that the connection shares with its client, borrowed until the call is answered. NULL
 * with an error where none is offered: UNAVAILABLE, PERMISSION_DENIED. */
TpsSegmentRegistry *tps_call_get_segments (TpsCall *call, GError **error);

/* Identifies the connection of the call among those that are open; NULL = it has none, or none that
 * may close before the call is answered. */
gconstpointer tps_call_get_connection (TpsCall *call);

/* Runs `func (call, user_data)` on a worker: functions that may block, or that compute on more than
 * 64 KiB. Those that may take more than some 10 ms are of the long lane
 * (runtime/base/worker_pool.h). If the call's connection closes before `func` has begun, the call
 * is cancelled: a worker calls `release (user_data)` (NULL = there is nothing to release) instead,
 * and the call ends. */
void tps_call_run_on_worker (TpsCall *call, TpsLane lane,
                             void (*func) (TpsCall *call, gpointer user_data), gpointer user_data,
                             GDestroyNotify release);

/* The same without cancellation: `func` does work for other calls too. */
void tps_call_run_shared_on_worker (TpsCall *call, TpsLane lane,
                                    void (*func) (TpsCall *call, gpointer user_data),
                                    gpointer user_data);

/* Answers. `write` is called before this returns, or never (the peer is gone). NULL `write` = void.
 * Large tensors that it writes are put into memory shared with the client where there is room. The
 * answer leaves when all slices of such memory that came with the arguments have been let go of: it
 * gives them back. Thread: any. */
void tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data);

/* The same with a result as the method's descriptor says. */
void tps_call_reply_value (TpsCall *call, gconstpointer value);

/* An object that a result borrows from. `ref` returns its argument; `unref` must not block. */
typedef struct
{
  gpointer object;
  gpointer (*ref) (gpointer object);
  GDestroyNotify unref;
} TpsLender;

/* The same, with a reference of the lender until the answer has left. */
void tps_call_reply_value_of (TpsCall *call, gconstpointer value, const TpsLender *lender);

/* The funnel from GError to the wire's ServiceError. Thread: any. */
void tps_call_reply_error (TpsCall *call, const GError *error);

/* The answer of a method without a result: NULL `error` = it is done. Thread: any. */
void tps_call_reply_done (TpsCall *call, const GError *error);

/* For TpsService.handle_other: the whole message, the caller's, under its name without the service.
 * From then on the call has no arguments. */
TpsMessage *tps_call_take_message (TpsCall *call);

/* The form of the reply to a call whose message was taken. Its budget stays borrowed until the call
 * is answered. */
void tps_call_get_reply_form (TpsCall *call, TpsWriterForm *form);

/* Answers such a call with a message that was ended with tps_writer_message_end(), which is taken
 * over. NULL: there is no reply. Thread: any. */
void tps_call_reply_message (TpsCall *call, TpsWriter *reply);

/* Where the calls of a method are handled. Calls with long arguments are handled on a worker in any
 * case. */
typedef enum
{
  TPS_METHOD_INLINE = 0,    /* on the I/O thread: short, and never blocks */
  TPS_METHOD_ON_WORKER = 1, /* in the short lane */
  TPS_METHOD_LONG = 2,      /* on a worker, in the long lane */
} TpsMethodPlace;

/* The right stands first, so that a method without one does not compile. */
typedef struct
{
  TpsRight right; /* that its callers must have */
  const TpsRpc *rpc;
  void (*handle) (TpsCall *call, gpointer service);
  TpsMethodPlace place;
  gboolean is_a_command; /* TRUE: a log may record its arguments */
  /* TRUE: the carrier may serve it although the tenant of the caller is at a limit, so that a flood
   * of peers without a name cannot keep others from saying theirs. */
  gboolean is_login;
} TpsMethod;

/* A service: its name in the multiplexed protocol, its methods (ended by one without a right), the
 * object they are given. */
typedef struct
{
  const gchar *name;
  const TpsMethod *methods;
  gpointer object; /* borrowed; outlives the server */
  /* Optional: ends what waits with UNAVAILABLE and refuses what comes from now on with it. Does not
   * block. */
  void (*shut_down) (gpointer object);
  /* Optional: ends what waits in the name of calls of that connection (tps_call_get_connection()).
   * Does not block. */
  void (*connection_closed) (gpointer object, gconstpointer connection);
  /* Optional, of one service: keeps an answer that no frame can hold, ended for a transfer, and
   * sets the name under which it is fetched. Takes over `answer` unless it fails. Does not block.
   * Thread: any. */
  gboolean (*keep_answer) (gpointer object, TpsCall *call, TpsWriter *answer, gchar **name,
                           GError **error);
  /* Optional: whether calls are served now; FALSE: each is refused with the error. Does not block.
   * Thread: any. */
  gboolean (*may_serve) (gpointer gate, GError **error);
  gpointer gate;
  /* Arguments of commands must stay what they are until the call is answered: those in memory
   * shared with the client are copied when they are read. */
  gboolean has_log;
  /* Optional: handles calls of methods that are not in `methods`, on a worker, in the long lane. As
   * their contract is not known here, their failures are answered with TApplicationException. */
  void (*handle_other) (TpsCall *call, gpointer object);
  TpsRight other_right; /* that callers of these methods must have; not UNSET with handle_other */
} TpsService;

G_END_DECLS
