/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/chunks/chunk_service.h"

#include <string.h>

#include "plugin/chunks/chunk_layout.h"
#include "plugin/chunks/transfer_store.h"
#include "plugin/service/methods.h"
#include "runtime/base/error.h"
#include "runtime/server/shell.h"

/* A chunk comes in -> it joins the queue of its transfer -> a worker takes the queue's chunks one
 * by one: checks, feeds, answers. There is one worker at a time, so the chunks of a transfer stay
 * in order, and their bytes are processed without the lock and off the I/O threads.
 *
 * run_transfer passes the transferred call to the dispatcher with a carrier of its own. The
 * carrier's finish() keeps the reply's writer in the transfer, and answers all calls of
 * run_transfer for the transfer. The transferred call uses the workers of the first of these calls.
 *
 * Replies are sent without a copy: a reply to get_chunk borrows the bytes and has a reference to
 * the transfer until it has been sent.
 *
 * The service may be freed once its last call has been answered, so its memory must not be used
 * after that answer.
 *
 * One lock guards the store, its transfers and the fields marked below. It is not held while bytes
 * are processed or calls are answered. */

struct TpsChunks
{
  TpsWorkerPool *workers;
  gsize answer_chunk_bytes;
  TpsMetrics *metrics; /* NULL = none */
  TpsAccess *access;   /* a reference; NULL = none */
  TpsBudget *replies;  /* of calls that came in transfers; a reference */
  GError *closing_error;

  TpsShell shell;            /* its lock guards all fields below */
  TpsDispatcher *dispatcher; /* set with tps_chunks_set_services(); NULL = none */
  TpsTransferStore *store;
  GHashTable *feeds; /* by transfer: Feed, while chunks are queued or processed */
  GHashTable *runs;  /* by transfer: Run, while it runs */
};

/* ---- expiry --------------------------------------------------------------------------------- */

/* Sets the deadline of the next expiry. Must be called after a transfer has begun or has been
 * answered. The timer need not be set again after each use of a transfer, because a use only
 * postpones the expiry. The lock must be held. */
static void
arm_timer (TpsChunks *chunks)
{
  tps_shell_set_deadline (&chunks->shell, tps_transfer_store_get_next_expiry_ns (chunks->store));
}

typedef struct
{
  TpsChunks *chunks;
  GPtrArray *transfers;
} Forgotten;

static void
free_forgotten (gpointer data)
{
  Forgotten *forgotten = data;

  g_ptr_array_unref (forgotten->transfers);
  tps_shell_end (&forgotten->chunks->shell);
  g_free (forgotten);
}

/* Frees `transfers`, which have been removed from the store, on a worker, because this takes long.
 * tps_shell_begin() must have been called. */
static void
forget (TpsChunks *chunks, GPtrArray *transfers)
{
  Forgotten *forgotten = g_new (Forgotten, 1);

  *forgotten = (Forgotten) { chunks, transfers };
  if (transfers->len > 0)
    tps_worker_pool_submit (chunks->workers, free_forgotten, forgotten);
  else
    free_forgotten (forgotten);
}

static void
expire (gpointer data)
{
  TpsChunks *chunks = data;
  GPtrArray *transfers;

  tps_mutex_lock (&chunks->shell.lock);
  transfers = tps_transfer_store_expire (chunks->store, tps_clock_now_ns ());
  tps_shell_begin (&chunks->shell);
  arm_timer (chunks);
  tps_mutex_unlock (&chunks->shell.lock);
  forget (chunks, transfers);
}

/* ---- creation and release ------------------------------------------------------------------- */

TpsChunks *
tps_chunks_new (const TpsChunksOptions *options)
{
  TpsTransferStoreOptions store = { .max_transfers = options->max_transfers,
                                    .max_bytes = options->max_bytes,
                                    .idle_ns = options->idle_ns,
                                    .budget = tps_budgets_or_none (options->budgets)->transfers };
  TpsChunks *chunks = g_new0 (TpsChunks, 1);

  chunks->workers = options->workers;
  chunks->answer_chunk_bytes = options->answer_chunk_bytes > 0 ? options->answer_chunk_bytes
                                                               : TPS_CHUNK_BYTES;
  if (options->metrics != NULL)
    chunks->metrics = tps_metrics_ref (options->metrics);
  if (options->access != NULL)
    chunks->access = tps_access_ref (options->access);
  chunks->closing_error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                               "this server is shutting down");
  tps_error_set_retry_after_ms (chunks->closing_error, TPS_RETRY_AFTER_MS); /* it may restart */
  chunks->replies = tps_budget_ref (store.budget);
  chunks->store = tps_transfer_store_new (&store);
  chunks->feeds = g_hash_table_new (NULL, NULL);
  chunks->runs = g_hash_table_new (NULL, NULL);
  tps_shell_init (&chunks->shell, chunks->workers, expire, chunks);
  return chunks;
}

/* The services of running calls end these calls. */
static void
shut_down (gpointer object)
{
  TpsChunks *chunks = object;

  TPS_LOCK_SCOPE (&chunks->shell.lock);
  tps_shell_shut_down (&chunks->shell);
}

void
tps_chunks_free (TpsChunks *chunks)
{
  shut_down (chunks);
  tps_shell_drain (&chunks->shell);
  tps_transfer_store_free (chunks->store);
  tps_budget_unref (chunks->replies);
  g_hash_table_unref (chunks->feeds);
  g_hash_table_unref (chunks->runs);
  g_clear_pointer (&chunks->dispatcher, tps_dispatcher_unref);
  g_clear_pointer (&chunks->metrics, tps_metrics_unref);
  g_clear_pointer (&chunks->access, tps_access_unref);
  g_error_free (chunks->closing_error);
  tps_shell_clear (&chunks->shell);
  g_free (chunks);
}

TpsDispatcher *
tps_chunks_dispatcher_new (const TpsService *services, guint n_services,
                           const gchar *default_service, GError **error)
{
  g_autoptr (GArray) others = g_array_new (FALSE, FALSE, sizeof (TpsService));

  for (guint i = 0; i < n_services; i++)
    if (strcmp (services[i].name, TPS_CHUNKS_SERVICE_NAME) != 0)
      g_array_append_val (others, services[i]);
  return tps_dispatcher_new ((const TpsService *) (gpointer) others->data, others->len,
                             default_service, error);
}

gboolean
tps_chunks_set_services (TpsChunks *chunks, const TpsService *services, guint n_services,
                         const gchar *default_service, GError **error)
{
  TpsDispatcher *dispatcher = tps_chunks_dispatcher_new (services, n_services, default_service,
                                                         error);
  TpsDispatcher *replaced;

  if (dispatcher == NULL)
    return FALSE;
  tps_dispatcher_set_metrics (dispatcher, chunks->metrics);
  if (chunks->access != NULL)
    tps_dispatcher_set_access (dispatcher, chunks->access);
  tps_mutex_lock (&chunks->shell.lock);
  replaced = chunks->dispatcher;
  chunks->dispatcher = dispatcher;
  tps_mutex_unlock (&chunks->shell.lock);
  g_clear_pointer (&replaced, tps_dispatcher_unref);
  return TRUE;
}

/* ---- owners --------------------------------------------------------------------------------- */

/* Returns the name of the principal to which the transfers of the call belong; NULL = there is no
 * access control. */
static const gchar *
get_owner (TpsCall *call)
{
  return call->grant != NULL ? tps_principal_get_name (tps_call_get_principal (call)) : NULL;
}

/* Returns a transfer that the caller may use, borrowed. The lock must be held. Errors (NULL):
 * NOT_FOUND, also for a transfer of a different principal. */
static TpsTransfer *
find_transfer (TpsChunks *chunks, TpsCall *call, const gchar *name, GError **error)
{
  TpsTransfer *transfer = tps_transfer_store_find (chunks->store, name, error);

  if (transfer == NULL || tps_transfer_may_use (transfer, get_owner (call)))
    return transfer;
  tps_transfer_store_set_not_found (chunks->store, name, error);
  return NULL;
}

/* Returns the circumstances of a call that needs room; `dropped` must be passed to forget(). */
static TpsTransferNeed
need_of (TpsCall *call)
{
  return (TpsTransferNeed) {
    .tenant = call->tenant,
    .now_ns = tps_clock_now_ns (),
    .dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_transfer_unref),
  };
}

/* Returns the transfer with this name, which is created if necessary. Errors: ALREADY_EXISTS if the
 * transfer of a different principal has this name. The lock must be held. */
static TpsTransfer *
make_or_find (TpsChunks *chunks, TpsCall *call, const TpsTransferArguments *arguments,
              const TpsTransferNeed *need, GError **error)
{
  TpsTransfer *found = tps_transfer_store_find (chunks->store, arguments->transfer, NULL);
  TpsTransfer *transfer;

  if (found != NULL && !tps_transfer_may_use (found, get_owner (call)))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
                   "transfer %s: the name is taken; names should be 128 random bits",
                   arguments->transfer);
      return NULL;
    }
  transfer = tps_transfer_store_begin (chunks->store, arguments->transfer, arguments->bytes,
                                       arguments->count, need, error);
  if (transfer != NULL && found == NULL)
    transfer->owner = g_strdup (get_owner (call));
  return transfer;
}

guint
tps_chunks_get_n_transfers (TpsChunks *chunks)
{
  TPS_LOCK_SCOPE (&chunks->shell.lock);
  return tps_transfer_store_get_n_transfers (chunks->store);
}

/* ---- begin_transfer, end_transfer ----------------------------------------------------------- */

static gboolean
begin (TpsChunks *chunks, TpsCall *call, const TpsTransferArguments *arguments, gint32 *n_received,
       GError **error)
{
  TpsTransferNeed need = need_of (call);
  TpsTransfer *transfer = NULL;

  tps_mutex_lock (&chunks->shell.lock);
  tps_shell_begin (&chunks->shell);
  if (chunks->shell.is_shut_down)
    g_propagate_error (error, g_error_copy (chunks->closing_error));
  else
    transfer = make_or_find (chunks, call, arguments, &need, error);
  if (transfer != NULL)
    {
      *n_received = transfer->n_received;
      arm_timer (chunks);
    }
  tps_mutex_unlock (&chunks->shell.lock);
  forget (chunks, need.dropped);
  return transfer != NULL;
}

static void
handle_begin_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  gint32 n_received = 0;

  if (tps_call_read_arguments (call, &arguments, &error)
      && begin (service, call, &arguments, &n_received, &error))
    tps_call_reply_value (call, &n_received);
  else
    tps_call_reply_error (call, error);
}

static TpsTransfer *
end (TpsChunks *chunks, TpsCall *call, const gchar *name)
{
  TpsTransfer *ended = NULL;

  TPS_LOCK_SCOPE (&chunks->shell.lock);
  if (find_transfer (chunks, call, name, NULL) != NULL)
    ended = tps_transfer_store_end (chunks->store, name);
  return ended;
}

static void
free_ended (TpsCall *call, gpointer ended)
{
  tps_transfer_unref (ended);
  tps_call_reply (call, NULL, NULL);
}

/* The room in the store is available at once. A worker frees the memory. */
static void
handle_end_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  TpsTransfer *ended = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    ended = end (service, call, arguments.transfer);
  if (ended != NULL)
    tps_call_run_on_worker (call, TPS_LANE_SHORT, free_ended, ended,
                            (GDestroyNotify) tps_transfer_unref);
  else
    tps_call_reply_done (call, error);
}

/* ---- put_chunk ------------------------------------------------------------------------------ */

typedef struct
{
  TpsCall *call;
  TpsChunk chunk;
} Put;

/* The queued chunks of one transfer. A feed exists while a worker processes its chunks. */
typedef struct
{
  TpsChunks *chunks;
  TpsTransfer *transfer; /* a reference */
  GQueue puts;           /* of Put; guarded by the lock of the shell */
} Feed;

static void
put_free (Put *put)
{
  tps_chunk_clear (&put->chunk);
  g_free (put);
}

/* Counts the bytes of a chunk, and frees the transfers that give way to it. */
static gboolean
reserve (const Feed *feed, const TpsChunk *chunk, GError **error)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_transfer_unref);
  TpsTransferNeed need = { .now_ns = tps_clock_now_ns (), .dropped = dropped };

  TPS_LOCK_SCOPE (&feed->chunks->shell.lock);
  return tps_transfer_store_reserve (feed->chunks->store, feed->transfer,
                                     g_bytes_get_size (chunk->data.received), &need, error);
}

static gboolean
feed_chunk (const Feed *feed, const TpsChunk *chunk, GError **error)
{
  TpsChunkVerdict verdict = tps_transfer_check (feed->transfer, chunk, error);
  TpsTransfer *forgotten = NULL;

  if (verdict != TPS_CHUNK_NEXT)
    return verdict == TPS_CHUNK_REPEATED;
  if (!reserve (feed, chunk, error))
    return FALSE;
  if (!tps_transfer_feed (feed->transfer, chunk, error))
    {
      const gchar *name = feed->transfer->name;

      /* The transfer may have given way meanwhile, and a new one may have its name. */
      tps_mutex_lock (&feed->chunks->shell.lock);
      if (tps_transfer_store_find (feed->chunks->store, name, NULL) == feed->transfer)
        forgotten = tps_transfer_store_end (feed->chunks->store, name);
      tps_mutex_unlock (&feed->chunks->shell.lock);
      g_clear_pointer (&forgotten, tps_transfer_unref);
      return FALSE;
    }
  TPS_LOCK_SCOPE (&feed->chunks->shell.lock);
  tps_transfer_advance (feed->transfer);
  return tps_transfer_store_touch (feed->chunks->store, feed->transfer, tps_clock_now_ns (), error);
}

/* Returns the next chunk, which the caller owns. If there is none, removes and frees the feed, and
 * returns NULL. */
static Put *
next_put (Feed *feed)
{
  Put *put;

  tps_mutex_lock (&feed->chunks->shell.lock);
  put = g_queue_pop_head (&feed->puts);
  if (put == NULL)
    g_hash_table_remove (feed->chunks->feeds, feed->transfer);
  tps_mutex_unlock (&feed->chunks->shell.lock);
  if (put != NULL)
    return put;
  tps_transfer_unref (feed->transfer);
  g_free (feed);
  return NULL;
}

/* Processes the chunks of a feed on a worker. The reply must be the last step for each chunk,
 * because the service may be freed after the reply to its last call. */
static void
run_feed (TpsCall *unused, gpointer user_data)
{
  Feed *feed = user_data;
  Put *put = next_put (feed);

  while (put != NULL)
    {
      g_autoptr (GError) error = NULL;
      TpsCall *call = put->call;

      feed_chunk (feed, &put->chunk, &error);
      put_free (put);
      put = next_put (feed);
      tps_call_reply_done (call, error);
    }
}

/* Adds the chunk to the feed of its transfer. Sets `is_new` if the feed has no worker yet. Returns
 * NULL if there is no such transfer. The lock must be held. */
static Feed *
join_feed (TpsChunks *chunks, Put *put, gboolean *is_new, GError **error)
{
  TpsTransfer *transfer = find_transfer (chunks, put->call, put->chunk.transfer, error);
  Feed *feed;

  if (transfer == NULL)
    return NULL;
  feed = g_hash_table_lookup (chunks->feeds, transfer);
  *is_new = feed == NULL;
  if (feed == NULL)
    {
      feed = g_new0 (Feed, 1);
      feed->chunks = chunks;
      feed->transfer = tps_transfer_ref (transfer);
      g_queue_init (&feed->puts);
      g_hash_table_insert (chunks->feeds, transfer, feed);
    }
  g_queue_push_tail (&feed->puts, put);
  return feed;
}

static void
handle_put_chunk (TpsCall *call, gpointer service)
{
  TpsChunks *chunks = service;
  g_autoptr (GError) error = NULL;
  Put *put = g_new0 (Put, 1);
  Feed *feed = NULL;
  gboolean is_new = FALSE;

  put->call = call;
  if (tps_call_read_arguments (call, &put->chunk, &error))
    {
      tps_mutex_lock (&chunks->shell.lock);
      feed = join_feed (chunks, put, &is_new, &error);
      tps_mutex_unlock (&chunks->shell.lock);
    }
  if (feed == NULL)
    {
      put_free (put);
      tps_call_reply_error (call, error);
    }
  else if (is_new)
    tps_call_run_shared_on_worker (call, TPS_LANE_SHORT, run_feed, feed);
}

/* ---- get_chunk, and replies of transfers ---------------------------------------------------- */

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
    answer.message.pieces = tps_writer_get_pieces (transfer->answer, &answer.message.n_pieces,
                                                   NULL);
  tps_call_reply_value_of (call, &answer, &lender);
}

static void
reply_chunk (const TpsChunks *chunks, TpsCall *call, TpsTransfer *transfer, gint32 index)
{
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
  g_autoptr (GError) error = NULL;
  TpsChunkLayout layout = get_answer_layout (chunks, transfer);
  TpsLender lender = { transfer, ref_transfer, unref_transfer };
  TpsChunk chunk = { .index = index };

  if (index < 0 || index >= layout.n_chunks)
    {
      error = g_error_new (TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                           "index %d: the reply of transfer %s has %d chunks", index,
                           transfer->name, layout.n_chunks);
      tps_call_reply_error (call, error);
      return;
    }
  tps_chunk_layout_get_pieces (&layout, index, transfer->answer, pieces);
  chunk.transfer = (gchar *) (gsize) transfer->name;
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
  transfer = find_transfer (chunks, call, name, error);
  if (transfer != NULL)
    state = transfer->state;
  if (state == TPS_TRANSFER_ANSWERED)
    tps_transfer_store_touch (chunks->store, tps_transfer_ref (transfer), tps_clock_now_ns (),
                              NULL);
  tps_mutex_unlock (&chunks->shell.lock);
  if (transfer == NULL || state == TPS_TRANSFER_ANSWERED)
    return transfer;
  return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT, "transfer %s has no reply yet: it is %s",
                        name, tps_transfer_state_name (state));
}

/* Runs on a worker, because it reads all bytes of the chunk for their CRC. */
static void
handle_get_chunk (TpsCall *call, gpointer service)
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
  arm_timer (chunks);
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

static TpsBudget *
get_reply_budget (gpointer carried)
{
  const Run *run = carried;

  return run->chunks->replies;
}

/* The lender has not been answered yet, because only finish_run() answers it. */
static void
throttle (gpointer carried, gint wait_ms)
{
  tps_call_throttle (((const Run *) carried)->lender, wait_ms);
}

static const TpsCarrierOps run_ops = {
  .throttle = throttle,
  .get_reply_budget = get_reply_budget,
  .get_peer = get_peer,
  .get_principal = get_principal,
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
  TpsDispatcher *dispatcher = call->context->transferred;

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
      transfer->name);
}

static void
dispatch (TpsChunks *chunks, TpsMessage *message, Run *run)
{
  const TpsCaller caller = { run->lender->grant, run->lender->tenant };
  g_autoptr (GError) refuse = NULL;

  tps_mutex_lock (&chunks->shell.lock);
  if (chunks->shell.is_shut_down)
    refuse = g_error_copy (chunks->closing_error);
  tps_mutex_unlock (&chunks->shell.lock);
  tps_call_enter_phase (run->lender, TPS_PHASE_WAIT);
  tps_dispatcher_handle (run->dispatcher, message, &caller, refuse, &run_ops, run);
}

/* Finds the transfer. If the transfer has a reply, returns a reference to it. If its call is
 * running, adds `call` to the calls that wait for the reply. If it is complete, begins a run, and
 * sets `message` and `run`. The lock must be held. */
static TpsTransfer *
enter_run (TpsChunks *chunks, TpsCall *call, const gchar *name, TpsMessage **message, Run **run,
           GError **error)
{
  TpsTransfer *transfer = find_transfer (chunks, call, name, error);

  if (transfer == NULL)
    return NULL;
  switch (transfer->state)
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

static void
handle_run_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    run_transfer (service, call, arguments.transfer);
  else
    tps_call_reply_error (call, error);
}

/* ---- table of methods ----------------------------------------------------------------------- */

static gboolean
keep_answer (gpointer object, TpsCall *call, TpsWriter *reply, gchar **name, GError **error)
{
  TpsChunks *chunks = object;
  TpsTransferNeed need = need_of (call);
  TpsTransfer *transfer;

  tps_mutex_lock (&chunks->shell.lock);
  tps_shell_begin (&chunks->shell);
  transfer = tps_transfer_store_keep (chunks->store, reply, &need, error);
  if (transfer != NULL)
    {
      transfer->owner = g_strdup (get_owner (call));
      *name = g_strdup (transfer->name);
      arm_timer (chunks);
    }
  tps_mutex_unlock (&chunks->shell.lock);
  forget (chunks, need.dropped);
  return transfer != NULL;
}

static const TpsMethod methods[] = { TPS_CHUNKS_METHODS (handle_), { 0 } };

TpsService
tps_chunk_service (TpsChunks *chunks)
{
  static const TpsServiceHooks hooks = { .keep_answer = keep_answer };

  return (TpsService) { .name = TPS_CHUNKS_SERVICE_NAME,
                        .methods = methods,
                        .object = chunks,
                        .shut_down = shut_down,
                        .hooks = &hooks };
}
