/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call.h"

#include <stddef.h>
#include <string.h>

#include "plugin/service/call_private.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"

static TpsDepot depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine magazine;

/* ---- beginning and end ---------------------------------------------------------------------- */

TpsCall *
tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops, gpointer carried,
              const TpsCallContext *context)
{
  TpsCall *call = tps_magazine_take (&magazine, &depot);

  if (call == NULL)
    call = g_new (TpsCall, 1);
  memset (call, 0, offsetof (TpsCall, own_span));
  call->message = message;
  call->rpc = rpc;
  call->ops = ops;
  call->carried = carried;
  call->context = context;
  call->code = -1;
  call->arrived_ns = message->received_ns != 0 ? message->received_ns : tps_clock_now_ns ();
  if (ops->get_grant != NULL)
    call->grant = ops->get_grant (carried);
  return call;
}

/* The bodies of the request must be freed before finish(), after which the carrier may read the
 * next request. */
void
tps_call_end (TpsCall *call, TpsWriter *reply)
{
  gint64 now_ns = tps_call_end_records (call, reply);

  if (call->is_admitted)
    tps_call_leave_tenant (call, reply, now_ns);
  tps_message_free (call->message);
  g_clear_pointer (&call->place, tps_sharing_unref);
  call->ops->finish (call->carried, reply);
  tps_magazine_put (&magazine, &depot, call);
}

/* Ends a call without a reply, because its connection is closed. */
static void
cancel (TpsCall *call)
{
  if (call->metrics != NULL)
    tps_method_metrics_cancel (call->metrics);
  tps_call_end (call, NULL);
}

/* ---- phases --------------------------------------------------------------------------------- */

TpsPhases *
tps_call_get_phases (TpsCall *call)
{
  return tps_call_span_get_phases (call->span);
}

/* Records the beginning of a short phase. Without a tracer, calls have no span, and only a few
 * spans are timed in detail. */
static void
note_phase (TpsCall *call, TpsPhase phase)
{
  if (call->span != NULL && call->span->phases.is_detailed)
    tps_phases_enter (&call->span->phases, phase);
}

void
tps_call_enter_phase (TpsCall *call, TpsPhase phase)
{
  tps_phases_enter_long (tps_call_get_phases (call), phase);
}

TpsDispatcher *
tps_call_get_transferred (const TpsCall *call)
{
  return call->context->transferred;
}

/* ---- arguments ------------------------------------------------------------------------------ */

void
tps_call_copy_shared (TpsCall *call)
{
  call->copies_shared = TRUE;
}

void
tps_call_get_arguments (TpsCall *call, TpsReader *in)
{
  tps_reader_init (in, call->message);
}

gboolean
tps_call_read_arguments (TpsCall *call, gpointer arguments, GError **error)
{
  TpsReader in;

  tps_call_get_arguments (call, &in);
  in.copies_shared = call->copies_shared;
  call->has_arguments = TRUE;
  if (!tps_rpc_read_arguments (call->rpc, &in, arguments, error))
    return FALSE;
  note_phase (call, TPS_PHASE_APPLY);
  return TRUE;
}

gboolean
tps_call_charge (TpsCall *call, gsize n_bytes, GError **error)
{
  return tps_message_charge (call->message, n_bytes, error);
}

/* ---- workers -------------------------------------------------------------------------------- */

static void
run_work (gpointer data)
{
  TpsCall *call = data;

  tps_call_enter_phase (call, call->has_arguments ? TPS_PHASE_APPLY : TPS_PHASE_DECODE);
  call->work (call, call->work_data);
}

static void
cancel_work (gpointer data)
{
  TpsCall *call = data;

  if (call->release_work != NULL)
    call->release_work (call->work_data);
  cancel (call);
}

void
tps_call_run_on_worker (TpsCall *call, TpsLane lane,
                        void (*func) (TpsCall *call, gpointer user_data), gpointer user_data,
                        GDestroyNotify release)
{
  call->work = func;
  call->work_data = user_data;
  call->release_work = release;
  tps_call_enter_phase (call, TPS_PHASE_QUEUE);
  call->ops->run_on_worker (call->carried, lane, run_work, cancel_work, call);
}

void
tps_call_run_shared_on_worker (TpsCall *call, TpsLane lane,
                               void (*func) (TpsCall *call, gpointer user_data), gpointer user_data)
{
  call->work = func;
  call->work_data = user_data;
  tps_call_enter_phase (call, TPS_PHASE_QUEUE);
  call->ops->run_on_worker (call->carried, lane, run_work, NULL, call);
}

/* ---- replies -------------------------------------------------------------------------------- */

void
tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data)
{
  note_phase (call, TPS_PHASE_REPLY);
  tps_call_end (call, tps_call_wants_reply (call) ? tps_call_write_result (call, write, user_data)
                                                  : NULL);
}

typedef struct
{
  const TpsRpc *rpc;
  gconstpointer value;
  const TpsLender *lender; /* NULL = the result borrows nothing */
} Result;

/* May be called twice for one call. Each writer gets its own reference. */
static void
write_value (TpsWriter *out, gconstpointer data)
{
  const Result *result = data;
  const TpsLender *lender = result->lender;

  tps_rpc_write_result (result->rpc, out, result->value);
  if (lender != NULL)
    tps_writer_set_released (out, lender->unref, lender->ref (lender->object));
}

void
tps_call_reply_value (TpsCall *call, gconstpointer value)
{
  tps_call_reply_value_of (call, value, NULL);
}

void
tps_call_reply_value_of (TpsCall *call, gconstpointer value, const TpsLender *lender)
{
  Result result = { call->rpc, value, lender };

  tps_call_reply (call, write_value, &result);
}

void
tps_call_reply_error (TpsCall *call, const GError *error)
{
  gboolean is_wanted = tps_call_wants_reply (call);

  note_phase (call, TPS_PHASE_REPLY);
  if (!is_wanted && g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    {
      cancel (call);
      return;
    }
  tps_call_record_error (call, error);
  tps_call_end (call, is_wanted ? tps_call_write_failure (call, error) : NULL);
}

void
tps_call_reply_done (TpsCall *call, const GError *error)
{
  if (error == NULL)
    tps_call_reply (call, NULL, NULL);
  else
    tps_call_reply_error (call, error);
}

void
tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text)
{
  note_phase (call, TPS_PHASE_REPLY);
  tps_call_record_failure (call, 0, text);
  tps_call_end (call,
                tps_call_wants_reply (call) ? tps_call_write_exception (call, kind, text) : NULL);
}

/* ---- calls of other contracts --------------------------------------------------------------- */

TpsMessage *
tps_call_take_message (TpsCall *call)
{
  TpsMessage *message = call->message;

  call->has_arguments = TRUE;
  note_phase (call, TPS_PHASE_APPLY);
  call->message = tps_message_new_like (message);
  tps_message_set_name (message, tps_call_get_method_name (call));
  return message;
}

void
tps_call_get_reply_form (TpsCall *call, TpsWriterForm *form)
{
  *form = (TpsWriterForm) { .protocol = call->message->protocol,
                            .framed = call->message->framed,
                            .has_header = call->message->has_header,
                            .header_seqid = call->message->header_seqid,
                            .budget = tps_call_get_reply_budget (call) };
}

void
tps_call_reply_message (TpsCall *call, TpsWriter *reply)
{
  gboolean is_wanted = tps_call_wants_reply (call);

  if (reply == NULL && is_wanted)
    {
      tps_call_reply_exception (call, TPS_EXCEPTION_INTERNAL_ERROR,
                                "the service has written no reply: is the method oneway?");
      return;
    }
  note_phase (call, TPS_PHASE_REPLY);
  if (reply != NULL && !is_wanted)
    g_clear_pointer (&reply, tps_writer_free);
  if (reply != NULL && call->message->transferred)
    tps_writer_message_end_transferred (reply, NULL);
  if (reply != NULL && !tps_call_has_room (call, reply))
    reply = tps_call_refuse_unread (call, reply);
  tps_call_end (call, reply);
}
