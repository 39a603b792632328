/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call on its way through a service, and the table of methods that makes a service.
 *
 * A handler has three steps: it decodes the arguments, makes one runtime call and encodes the
 * result. It must answer its call exactly once, now or later, on any thread, with one of the
 * functions tps_call_reply_*(). Calls are carried by a connection of our server or by a
 * ThriftProcessor of a host; the functions below are the same for both.
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

/* Writes the success value of a result: the field with id 0, including tps_writer_field(); nothing
 * for void. */
typedef void (*TpsWriteResult) (TpsWriter *out, gconstpointer user_data);

/* Sets `in` to the start of the arguments struct. Valid until the call is answered. */
void tps_call_get_arguments (TpsCall *call, TpsReader *in);

/* Reads the arguments with the method's descriptor. Errors: INVALID_ARGUMENT. */
gboolean tps_call_read_arguments (TpsCall *call, gpointer arguments, GError **error);

/* Charges memory of the handler to the call, until it is answered. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_charge (TpsCall *call, gsize n_bytes, GError **error);

/* The tenant of the caller, borrowed; NULL = the carrier has no limits for it. */
TpsTenant *tps_call_get_tenant (TpsCall *call);

/* For the service Chunks: slows down the connection, because the call that was transferred in
 * chunks was refused with retry_after_ms = `wait_ms` (see TpsCarrierOps.throttle). Must be called
 * before the answer. */
void tps_call_throttle (TpsCall *call, gint wait_ms);

/* Charges the tenant for rows that the handler is about to read or change. Does nothing without a
 * tenant. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_add_rows (TpsCall *call, guint64 n_rows, GError **error);

/* Whether the call may be answered later. FALSE in servers where a wait would block all clients: a
 * handler that would have to wait for other calls must then answer with UNAVAILABLE. */
gboolean tps_call_may_wait (TpsCall *call);

/* The peer, for the log; NULL = not known. Borrowed until the call is answered. */
const gchar *tps_call_get_peer (TpsCall *call);

/* The principal of the caller, never NULL: anonymous if the carrier does not identify peers.
 * Borrowed until the call is answered; later changes of the connection's identity do not affect
 * it. */
const TpsPrincipal *tps_call_get_principal (TpsCall *call);

/* Authenticates the connection: later calls have the rights of the owner of `token`. Errors:
 * UNAUTHENTICATED (no such token), UNAVAILABLE (this server or this connection accepts no
 * tokens). */
gboolean tps_call_authenticate (TpsCall *call, const gchar *token, GError **error);

/* Checks the right of the caller for `table`; the method has been checked before. Handlers must
 * call this for each name of a table before they look up the table. NULL `table` = every table,
 * now and later. Errors: PERMISSION_DENIED, UNAUTHENTICATED; they do not depend on the existence of
 * the table. */
gboolean tps_call_check_table (TpsCall *call, const gchar *table, TpsRight right, GError **error);

/* Returns whether a list of names may contain `table`; lists must leave out tables that the caller
 * may not use. */
gboolean tps_call_may_see_table (TpsCall *call, const gchar *table);

/* The rights of the caller, borrowed until the call is answered; NULL = all. */
const TpsGrant *tps_call_get_grant (TpsCall *call);
/* The time of arrival of the call (tps_clock_now_ns()); 0 if calls are not counted. */
gint64 tps_call_get_began_ns (const TpsCall *call);

/* Sets the context of the connection. If a later call lacks a header that the context has, the
 * entry of the context is used. Takes a reference to `context`, which must not change any more;
 * NULL = none. Errors: UNAVAILABLE (this server does not keep connections). */
gboolean tps_call_set_context (TpsCall *call, GHashTable *context, GError **error);

/* Begins the next phase of the call, for its times: see runtime/base/phases.h. The functions of
 * this header record the phases of decoding, of the queue of workers, and of writing the result. A
 * handler must record the wait for other calls itself, before it passes the call on. */
void tps_call_enter_phase (TpsCall *call, TpsPhase phase);

/* The times of the call, for functions that note phases themselves; NULL = the call is not timed.
 * Borrowed until the call is answered. */
TpsPhases *tps_call_get_phases (TpsCall *call);

/* The memory that the connection shares with its client, borrowed until the call is answered. NULL
 * with an error if none is offered: UNAVAILABLE, PERMISSION_DENIED. */
TpsSegmentRegistry *tps_call_get_segments (TpsCall *call, GError **error);

/* Reserves `n_bytes` for the result of the call in memory of `device` (NULL: of the host) that the
 * connection shares with its client; see tps_segment_registry_reserve(). Tensors in the buffer are
 * sent without a copy. The caller must not write to it after the reply. Owned by the caller. NULL:
 * there is no room. */
TpsBuffer *tps_call_reserve (TpsCall *call, TpsDevice *device, gsize n_bytes);

/* Identifies the connection of the call among the open ones; NULL = the call has no connection that
 * may close before it is answered. */
gconstpointer tps_call_get_connection (TpsCall *call);

/* Returns FALSE if the connection of the call has closed, even if TpsService.connection_closed has
 * not been called yet. */
gboolean tps_call_is_connected (TpsCall *call);

/* Returns TRUE if the carrier knows that no other connection waits for the calling thread, and
 * FALSE if one waits or the carrier does not know. */
gboolean tps_call_is_alone (TpsCall *call);

/* Runs `func (call, user_data)` on a worker. Needed for functions that may block, or that process
 * more than TpsTuning.inline_bytes while other connections may wait. Functions that may take more
 * than about 10 ms belong to the long lane (runtime/base/worker_pool.h). If the call's connection
 * closes before `func` has begun, the call is cancelled: a worker calls `release (user_data)` (NULL
 * = nothing to release) instead, and the call ends. */
void tps_call_run_on_worker (TpsCall *call, TpsLane lane,
                             void (*func) (TpsCall *call, gpointer user_data), gpointer user_data,
                             GDestroyNotify release);

/* The same without cancellation, for functions that also work for other calls. */
void tps_call_run_shared_on_worker (TpsCall *call, TpsLane lane,
                                    void (*func) (TpsCall *call, gpointer user_data),
                                    gpointer user_data);

/* Answers the call. `write` is called before this returns, or never if the peer has gone. NULL
 * `write` = void. Large tensors are placed in memory shared with the client if there is room. The
 * reply returns the slices of shared memory in the arguments to the client, so it is sent only when
 * all of them have been released. Thread: any. */
void tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data);

/* The same with a result that the method's descriptor writes. */
void tps_call_reply_value (TpsCall *call, gconstpointer value);

/* An object from which a result borrows. `ref` returns its argument; `unref` must not block. */
typedef struct
{
  gpointer object;
  gpointer (*ref) (gpointer object);
  GDestroyNotify unref;
} TpsLender;

/* The same; keeps a reference to the lender's object until the reply has been sent. */
void tps_call_reply_value_of (TpsCall *call, gconstpointer value, const TpsLender *lender);

/* Answers with an error: the only conversion from GError to the wire's ServiceError. Thread:
 * any. */
void tps_call_reply_error (TpsCall *call, const GError *error);

/* Answers a method without a result: NULL `error` = success. Thread: any. */
void tps_call_reply_done (TpsCall *call, const GError *error);

/* For TpsService.handle_other: the whole message, owned by the caller, with the name of the method
 * without its service. After this the call has no arguments. */
TpsMessage *tps_call_take_message (TpsCall *call);

/* The form of the reply to a call after tps_call_take_message(). The budget is borrowed until the
 * call is answered. */
void tps_call_get_reply_form (TpsCall *call, TpsWriterForm *form);

/* Answers such a call with a message that was ended with tps_writer_message_end(), which is taken
 * over. NULL: there is no reply. Thread: any. */
void tps_call_reply_message (TpsCall *call, TpsWriter *reply);

/* The thread that handles the calls of a method. Calls with long arguments are always handled on a
 * worker. */
typedef enum
{
  TPS_METHOD_INLINE = 0,    /* on the I/O thread: short, and never blocks */
  TPS_METHOD_ON_WORKER = 1, /* in the short lane */
  TPS_METHOD_LONG = 2,      /* on a worker, in the long lane */
} TpsMethodPlace;

/* The right is the first field, so that a method without one does not compile. */
typedef struct
{
  TpsRight right; /* that callers need */
  const TpsRpc *rpc;
  void (*handle) (TpsCall *call, gpointer service);
  TpsMethodPlace place;
  gboolean is_a_command; /* TRUE: a log may record its arguments */
  /* TRUE: the carrier may serve it even if the tenant of the caller is at a limit, so that a flood
   * of anonymous peers cannot keep other peers from authenticating. */
  gboolean is_login;
} TpsMethod;

/* A service: its name in the multiplexed protocol, its methods (ended by one without a right) and
 * their object. */
typedef struct
{
  const gchar *name;
  const TpsMethod *methods;
  gpointer object; /* borrowed; must outlive the server */
  /* Optional: ends pending calls with UNAVAILABLE, and refuses later calls with it. Must not
   * block. */
  void (*shut_down) (gpointer object);
  /* Optional: ends the pending calls of that connection (tps_call_get_connection()). Must not
   * block. */
  void (*connection_closed) (gpointer object, gconstpointer connection);
  /* Optional, for one service only: keeps a reply that no frame can hold, ended for a transfer, and
   * sets the name under which clients fetch it. Takes over `answer` unless it fails. Must not
   * block. Thread: any. */
  gboolean (*keep_answer) (gpointer object, TpsCall *call, TpsWriter *answer, gchar **name,
                           GError **error);
  /* Optional: whether calls are served now. FALSE: each is refused with the error. Must not block.
   * Thread: any. */
  gboolean (*may_serve) (gpointer gate, GError **error);
  gpointer gate;
  /* TRUE: arguments of commands must not change until the call is answered. Those in memory shared
   * with the client are copied when they are read. */
  gboolean has_log;
  /* Optional: handles calls of methods that are not in `methods`, on a worker, in the long lane.
   * Their contract is not known here, so failures are answered with TApplicationException. */
  void (*handle_other) (TpsCall *call, gpointer object);
  TpsRight other_right; /* that callers of these methods need; not UNSET with handle_other */
} TpsService;

G_END_DECLS
