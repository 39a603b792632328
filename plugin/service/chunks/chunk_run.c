/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/chunk_crc.h"
#include "plugin/service/chunks/chunk_service_private.h"
#include "runtime/base/error.h"

/* ---- replies of transfers ------------------------------------------------------------------- */

static gpointer
ref_transfer (gpointer transfer)
{
  return tps_transfer_ref (transfer);
}

static void
unref_transfer (gpointer transfer)
{
  tps_transfer_unref (transfer);
}

static TpsChunkLayout
get_answer_layout (const TpsChunks *chunks, TpsTransfer *transfer)
{
  return tps_chunk_layout (tps_transfer_get_n_bytes (transfer), chunks->answer_chunk_bytes);
}

/* Answers a call of run_transfer with the reply of the transfer, or with its size if it is longer
 * than a chunk. */
static void
reply_answered (const TpsChunks *chunks, TpsCall *call, TpsTransfer *transfer)
{
  TpsChunkLayout layout = get_answer_layout (chunks, transfer);
  TpsLender lender = { transfer, ref_transfer, unref_transfer };
  TpsLargeAnswer answer = { .bytes = layout.n_bytes };

  if (layout.n_chunks > 1)
    answer.count = layout.n_chunks;
  else
    answer.message.pieces = tps_writer_get_pieces (tps_transfer_get_answer (transfer),
                                                   &answer.message.n_pieces, NULL);
  tps_call_reply_value_of (call, &answer, &lender);
}

static gboolean
check_answer_index (const TpsTransfer *transfer, const TpsChunkLayout *layout, gint32 index,
                    GError **error)
{
  if (index >= 0 && index < layout->n_chunks)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "index %d: the reply of transfer %s has %d chunks", index,
               tps_transfer_get_name (transfer), layout->n_chunks);
  return FALSE;
}

static void
reply_chunk (const TpsChunks *chunks, TpsCall *call, TpsTransfer *transfer, gint32 index)
{
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
  g_autoptr (GError) error = NULL;
  TpsChunkLayout layout = get_answer_layout (chunks, transfer);
  TpsLender lender = { transfer, ref_transfer, unref_transfer };
  TpsChunk chunk = { .index = index };

  if (!check_answer_index (transfer, &layout, index, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  tps_chunk_layout_get_pieces (&layout, index, tps_transfer_get_answer (transfer), pieces);
  chunk.transfer = (gchar *) (gsize) tps_transfer_get_name (transfer);
  chunk.count = layout.n_chunks;
  chunk.data.pieces = (const struct iovec *) (gpointer) pieces->data;
  chunk.data.n_pieces = pieces->len;
  chunk.crc32c = (gint32) tps_crc32c_of_pieces (chunk.data.pieces, pieces->len);
  tps_call_reply_value_of (call, &chunk, &lender);
}

/* Returns a reference to a transfer that has a reply. */
static TpsTransfer *
find_answered (TpsChunks *chunks, TpsCall *call, const gchar *name, GError **error)
{
  TpsTransferState state = TPS_TRANSFER_RECEIVING;
  TpsTransfer *transfer;

  tps_mutex_lock (&chunks->shell.lock);
  transfer = tps_chunks_find (chunks, call, name, error);
  if (transfer != NULL)
    state = tps_transfer_get_state (transfer);
  if (state == TPS_TRANSFER_ANSWERED)
    tps_transfer_store_touch (chunks->store, tps_transfer_ref (transfer), tps_clock_now_ns (),
                              NULL);
  tps_mutex_unlock (&chunks->shell.lock);
  if (transfer == NULL || state == TPS_TRANSFER_ANSWERED)
    return transfer;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "transfer %s has no reply yet: it is %s", name, tps_transfer_state_name (state));
  return NULL;
}

/* Runs on a worker, because it reads all bytes of the chunk for their CRC. */
void
tps_chunks_handle_get_chunk (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (TpsTransfer) transfer = NULL;
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    transfer = find_answered (service, call, arguments.transfer, &error);
  if (transfer != NULL)
    reply_chunk (service, call, transfer, arguments.index);
  else
    tps_call_reply_error (call, error);
}

/* ---- run_transfer --------------------------------------------------------------------------- */

/* A running call of a transfer, and the `carried` of its carrier. */
typedef struct
{
  TpsChunks *chunks;
  TpsTransfer *transfer;     /* a reference */
  TpsDispatcher *dispatcher; /* a reference: the services may be replaced during the call */
  TpsCall *lender;           /* the first call of run_transfer, which lends its workers */
  TpsTenant *tenant;         /* of the lender; NULL = none */
  /* Of TpsCall: all calls of run_transfer, the lender first. Guarded by the lock of the shell. */
  GPtrArray *askers;
} Run;

static gboolean
may_wait (gpointer carried)
{
  const Run *run = carried;

  return tps_call_may_wait (run->lender);
}

typedef struct
{
  TpsJobFunc func;
  gpointer user_data;
} Job;

static void
run_job (TpsCall *lender, gpointer user_data)
{
  Job job = *(Job *) user_data;

  g_free (user_data);
  job.func (job.user_data);
}

/* `cancel` is ignored, because a transfer outlives the connection that began it. */
static void
run_on_worker (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel,
               gpointer user_data)
{
  const Run *run = carried;
  Job *job = g_new (Job, 1);

  job->func = func;
  job->user_data = user_data;
  tps_call_run_shared_on_worker (run->lender, lane, run_job, job);
}

static void
finish_run (gpointer carried, TpsWriter *reply)
{
  Run *run = carried;
  TpsChunks *chunks = run->chunks;

  tps_mutex_lock (&chunks->shell.lock);
  g_hash_table_remove (chunks->runs, run->transfer);
  tps_transfer_store_answer (chunks->store, run->transfer, reply, tps_clock_now_ns ());
  tps_chunks_arm_timer (chunks);
  tps_mutex_unlock (&chunks->shell.lock);
  for (guint i = 0; i < run->askers->len; i++)
    reply_answered (chunks, run->askers->pdata[i], run->transfer);
  g_ptr_array_unref (run->askers);
  tps_transfer_unref (run->transfer);
  tps_dispatcher_unref (run->dispatcher);
  g_free (run);
}

static const gchar *
get_peer (gpointer carried)
{
  const Run *run = carried;

  return tps_call_get_peer (run->lender);
}

/* All calls of run_transfer have the same principal, because a transfer belongs to one
 * principal. */
static const TpsPrincipal *
get_principal (gpointer carried)
{
  return tps_call_get_principal (((const Run *) carried)->lender);
}

static const TpsGrant *
get_grant (gpointer carried)
{
  return tps_call_get_grant (((const Run *) carried)->lender);
}

static TpsBudget *
get_reply_budget (gpointer carried)
{
  const Run *run = carried;

  return run->chunks->replies;
}

static TpsTenant *
get_tenant (gpointer carried)
{
  const Run *run = carried;

  return run->tenant;
}

/* The lender has not been answered yet, because only finish_run() answers it. */
static void
throttle (gpointer carried, gint wait_ms)
{
  tps_call_throttle (((const Run *) carried)->lender, wait_ms);
}

static const TpsCarrierOps run_ops = {
  .get_tenant = get_tenant,
  .throttle = throttle,
  .get_reply_budget = get_reply_budget,
  .get_peer = get_peer,
  .get_principal = get_principal,
  .get_grant = get_grant,
  .may_wait = may_wait,
  .run_on_worker = run_on_worker,
  .finish = finish_run,
};

/* Takes the call of a complete transfer, and creates the Run that carries it. The lock must be
 * held. */
static TpsMessage *
begin_run (TpsChunks *chunks, TpsTransfer *transfer, TpsCall *call, Run **run, GError **error)
{
  TpsMessage *message = tps_transfer_take_call (transfer, error);
  TpsDispatcher *dispatcher = tps_call_get_transferred (call);

  if (message == NULL)
    return NULL;
  if (dispatcher == NULL)
    dispatcher = chunks->dispatcher;
  g_assert (dispatcher != NULL);
  *run = g_new0 (Run, 1);
  (*run)->chunks = chunks;
  (*run)->transfer = tps_transfer_ref (transfer);
  (*run)->dispatcher = tps_dispatcher_ref (dispatcher);
  (*run)->lender = call;
  (*run)->tenant = tps_call_get_tenant (call);
  (*run)->askers = g_ptr_array_new ();
  g_ptr_array_add ((*run)->askers, call);
  g_hash_table_insert (chunks->runs, transfer, *run);
  return message;
}

/* Adds a call that waits for the reply. Errors: UNAVAILABLE (the call must not wait). The lock must
 * be held. */
static void
join_run (TpsChunks *chunks, TpsTransfer *transfer, TpsCall *call, GError **error)
{
  Run *run = g_hash_table_lookup (chunks->runs, transfer);

  if (tps_call_may_wait (call))
    {
      g_ptr_array_add (run->askers, call);
      return;
    }
  g_set_error (
      error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
      "transfer %s is running, and this server cannot wait: it serves one connection at a time",
      tps_transfer_get_name (transfer));
}

static void
dispatch (TpsChunks *chunks, TpsMessage *message, Run *run)
{
  g_autoptr (GError) refuse = NULL;

  tps_mutex_lock (&chunks->shell.lock);
  if (chunks->shell.is_shut_down)
    refuse = g_error_copy (chunks->closing_error);
  tps_mutex_unlock (&chunks->shell.lock);
  tps_call_enter_phase (run->lender, TPS_PHASE_WAIT);
  tps_dispatcher_handle (run->dispatcher, message, refuse, &run_ops, run);
}

/* Finds the transfer. If the transfer has a reply, returns a reference to it. If its call is
 * running, adds `call` to the calls that wait for the reply. If it is complete, begins a run, and
 * sets `message` and `run`. The lock must be held. */
static TpsTransfer *
enter_run (TpsChunks *chunks, TpsCall *call, const gchar *name, TpsMessage **message, Run **run,
           GError **error)
{
  TpsTransfer *transfer = tps_chunks_find (chunks, call, name, error);

  if (transfer == NULL)
    return NULL;
  switch (tps_transfer_get_state (transfer))
    {
    case TPS_TRANSFER_ANSWERED:
      return tps_transfer_ref (transfer);
    case TPS_TRANSFER_RUNNING:
      join_run (chunks, transfer, call, error);
      return NULL;
    default:
      *message = begin_run (chunks, transfer, call, run, error);
      return NULL;
    }
}

static void
run_transfer (TpsChunks *chunks, TpsCall *call, const gchar *name)
{
  g_autoptr (TpsTransfer) answered = NULL;
  g_autoptr (GError) error = NULL;
  TpsMessage *message = NULL;
  Run *run = NULL;

  tps_mutex_lock (&chunks->shell.lock);
  answered = enter_run (chunks, call, name, &message, &run, &error);
  tps_mutex_unlock (&chunks->shell.lock);
  if (message != NULL)
    dispatch (chunks, message, run);
  else if (answered != NULL)
    reply_answered (chunks, call, answered);
  else if (error != NULL)
    tps_call_reply_error (call, error);
}

void
tps_chunks_handle_run_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    run_transfer (service, call, arguments.transfer);
  else
    tps_call_reply_error (call, error);
}
