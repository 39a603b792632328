/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call on its way through a service; thriftps/service.h has services and the public functions
 * of calls.
 *
 * A handler has three steps: it decodes the arguments, makes one runtime call and encodes the
 * result. Calls are carried by a connection of TpsServer or by a
 * ThriftProcessor of a host; the functions below work for both.
 */

#pragma once

#include <thriftps/service.h>

#include "plugin/access/access.h"
#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"
#include "plugin/memory/segment_registry.h"
#include "plugin/service/call_metrics.h"
#include "plugin/tracing/tracer.h"
#include "plugin/wire/descriptor.h"
#include "runtime/base/phases.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/quota/tenant.h"

G_BEGIN_DECLS

typedef struct TpsCarrierOps TpsCarrierOps; /* dispatch.h */
typedef struct TpsDispatcher TpsDispatcher; /* dispatch.h */

/* Writes the success value of a result: the field with id 0, with its header (tps_writer_field()).
 * Writes nothing for void. */
typedef void (*TpsWriteResult) (TpsWriter *out, gconstpointer user_data);

/* Returns its name. Borrowed; lives as long as the server's quotas. */
const gchar *tps_call_get_tenant_name (TpsCall *call);

/* For the Chunks service: slows down the connection after a call that came in chunks was refused
 * with retry_after_ms = `wait_ms` (see TpsCarrierOps.throttle). Must be called before the
 * answer. */
void tps_call_throttle (TpsCall *call, gint wait_ms);

/* Charges the tenant for `n_rows` rows that the handler is about to read or change. Does nothing if
 * the call has no tenant. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_add_rows (TpsCall *call, guint64 n_rows, GError **error);

/* Authenticates the connection: later calls have the rights of the owner of `token`. Errors:
 * UNAUTHENTICATED (no such token), UNAVAILABLE (the server or the connection accepts no tokens). */
gboolean tps_call_authenticate (TpsCall *call, const gchar *token, GError **error);

/* Returns TRUE if the caller has `right` for `table`, as
 * tps_call_check_table(), but records no refusal. Lists must
 * leave out tables for which the caller lacks it, and replies must leave out totals of all tables
 * (`table` NULL). */
gboolean tps_call_may_see_table (TpsCall *call, const gchar *table, TpsRight right);

/* Returns the time of arrival of the call (tps_clock_now_ns()); 0 if calls are not counted. */
gint64 tps_call_get_began_ns (const TpsCall *call);

/* Sets the context of the connection. If a later call lacks a header that the context contains, the
 * entry of the context is used. Takes a reference to `context`, which must not change any more;
 * NULL = no context. Errors: UNAVAILABLE (the server keeps no contexts). */
gboolean tps_call_set_context (TpsCall *call, GHashTable *context, GError **error);

/* Records that the next phase of the call begins, so that each phase is timed
 * (runtime/base/phases.h). The functions of this header record the phases of decoding, of waiting
 * for a worker, and of writing the result. A handler must record the wait for other calls itself,
 * before it passes the call on. */
void tps_call_enter_phase (TpsCall *call, TpsPhase phase);

/* Returns the times of the call, for functions that record phases themselves; NULL = the call is
 * not timed. Borrowed until the call is answered. */
TpsPhases *tps_call_get_phases (TpsCall *call);

/* Returns the memory that the connection shares with its client, borrowed until the call is
 * answered. Errors (NULL): UNAVAILABLE, PERMISSION_DENIED (no shared memory is offered). */
TpsSegmentRegistry *tps_call_get_segments (TpsCall *call, GError **error);

/* Reserves `n_bytes` for the result of the call in memory of `device` (NULL = the host) that the
 * connection shares with its client; see tps_segment_registry_reserve(). Tensors in the buffer are
 * sent without a copy. The caller owns the buffer and must not write to it after the reply. Returns
 * NULL if there is no room or no shared memory, or if the call already has a reservation. */
TpsBuffer *tps_call_reserve (TpsCall *call, TpsDevice *device, gsize n_bytes);

/* Returns TRUE if the carrier knows that no other connection waits for the calling thread, and
 * FALSE if one waits or the carrier does not know. */
gboolean tps_call_is_alone (TpsCall *call);

/* As tps_call_run_on_worker(), but never cancelled, for work that other calls share. */
void tps_call_run_shared_on_worker (TpsCall *call, TpsLane lane,
                                    void (*func) (TpsCall *call, gpointer user_data),
                                    gpointer user_data);

/* Answers the call with the result that `write` writes (NULL = void). `write` is called before this
 * function returns: once, twice if a reply with shared memory cannot be completed, or never if no
 * reply is sent, because the call is oneway or its connection has closed. Large tensors are placed
 * in memory shared with the client if there is room. The reply returns the slices of shared memory
 * in the arguments to the client, so it is sent only when all of them have been released. Thread:
 * any. */
void tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data);

/* An object from which a result borrows. `ref` returns its argument; `unref` must not block. */
typedef struct
{
  gpointer object;
  gpointer (*ref) (gpointer object);
  GDestroyNotify unref;
} TpsLender;

/* As tps_call_reply_value(), but also keeps a reference to the lender's object until the reply has
 * been sent. Thread: any. */
void tps_call_reply_value_of (TpsCall *call, gconstpointer value, const TpsLender *lender);

/* For TpsServiceHooks.handle_other: takes the whole message out of the call. The name of its method
 * then lacks the service. The caller owns the message. Afterwards the call has no arguments. */
TpsMessage *tps_call_take_message (TpsCall *call);

/* Sets `form` to the form of the reply that must follow tps_call_take_message(). The budget in it
 * is borrowed until the call is answered. */
void tps_call_get_reply_form (TpsCall *call, TpsWriterForm *form);

/* Answers a call after tps_call_take_message() with a reply that was ended with
 * tps_writer_message_end(). Takes over `reply`. NULL = the service wrote no reply, which is
 * answered with the TApplicationException INTERNAL_ERROR, unless the call is oneway. Thread:
 * any. */
void tps_call_reply_message (TpsCall *call, TpsWriter *reply);

/* The part of services of this library. */
struct TpsServiceHooks
{
  /* Optional; at most one service may have it. Keeps a reply that no frame can hold and that was
   * ended for a transfer, and sets the name under which clients fetch the reply. Takes over
   * `answer` unless it fails. Must not block. Thread: any. */
  gboolean (*keep_answer) (gpointer object, TpsCall *call, TpsWriter *answer, gchar **name,
                           GError **error);
  /* Optional: returns TRUE if calls are served now. FALSE: each call is refused with the error.
   * Must not block. Thread: any. */
  gboolean (*may_serve) (gpointer gate, GError **error);
  gpointer gate;
  /* TRUE: arguments of commands must not change until the call is answered, so they are copied even
   * with `borrows_shared`. */
  gboolean has_log;
  /* Optional: handles calls of methods that are not in `methods`, on a worker, in the long lane.
   * The contract of these methods is unknown here, so failures are answered with
   * TApplicationException. */
  void (*handle_other) (TpsCall *call, gpointer object);
  TpsRight other_right; /* needed by callers of these methods; not UNSET with handle_other */
};

/* ---- for the dispatcher --------------------------------------------------------------------- */

/* Numbers of Thrift's TApplicationException. */
typedef enum
{
  TPS_EXCEPTION_UNKNOWN_METHOD = 1,
  TPS_EXCEPTION_INVALID_MESSAGE_TYPE = 2,
  TPS_EXCEPTION_INTERNAL_ERROR = 6,
  TPS_EXCEPTION_PROTOCOL_ERROR = 7,
} TpsExceptionKind;

/* The state shared by all calls of a dispatcher. */
typedef struct
{
  const TpsService *keeper; /* keeps replies that no frame can hold; NULL = there is none */
  TpsCounter *admin;        /* counts calls that need the right ADMIN */
  TpsTracer *tracer;        /* borrowed; NULL = calls are not traced */
  /* of calls that arrive in transfers; NULL = the dispatcher of tps_chunks_set_services() */
  TpsDispatcher *transferred;
} TpsCallContext;

/* Others may read the fields. The dispatcher sets `method`, `is_admin`, `metrics` and
 * `copies_shared`: arguments in memory shared with the client are then copied. */
struct TpsCall
{
  TpsMessage *message;
  const TpsCarrierOps *ops;
  gpointer carried;
  const TpsRpc *rpc;              /* NULL: a method of a different contract, or none */
  const TpsCallContext *context;  /* borrowed */
  const TpsGuardedMethod *method; /* of the dispatcher; NULL = not known yet */
  const TpsGrant *grant;          /* borrowed from the carrier; NULL = everything is allowed */
  TpsMethodMetrics *metrics;      /* borrowed; NULL = the call is not counted */
  gint64 arrived_ns;              /* on the monotonic clock */
  gboolean copies_shared;
  gboolean is_admin;      /* the end is logged for the audit, with the next two fields */
  gint code;              /* of the failure, on the wire; -1 = none */
  gchar *object;          /* the table that the call named; NULL = none */
  gboolean is_admitted;   /* the tenant counts the call until it ends */
  TpsTenant *tenant;      /* borrowed; NULL = none */
  gboolean has_arguments; /* they have been read */
  TpsCallSpan *span;      /* NULL: the call is not traced */

  /* The arguments of tps_call_run_on_worker(). */
  void (*work) (TpsCall *call, gpointer user_data);
  gpointer work_data;
  GDestroyNotify release_work; /* may be NULL */

  TpsSharing *place; /* of the reply, with reserved memory; NULL = none is reserved */

  TpsCallSpan own_span; /* the memory of `span` */
};

/* Creates a call, which lives until it is answered. Takes over `message`. `context` and `rpc` are
 * borrowed; NULL `rpc` = the method has no descriptor. */
TpsCall *tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops,
                       gpointer carried, const TpsCallContext *context);

/* Charges the call to its tenant, until the call is answered. A login (TpsMethod.is_login) is
 * charged only if it is long, or if the carrier refuses to serve it free of charge. A call that
 * came in a transfer is not charged. FALSE: the call must be refused, and nothing is charged;
 * `error` must not be NULL. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_call_admit (TpsCall *call, gboolean is_login, GError **error);

/* Begins the span of the call. Must be called before the handler. */
void tps_call_begin_span (TpsCall *call);

/* Answers a call that its caller may not make. The form of the reply depends on the name of the
 * method only, so it does not reveal the existence of the method. */
void tps_call_refuse (TpsCall *call, const GError *error);

void tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text);

G_END_DECLS
