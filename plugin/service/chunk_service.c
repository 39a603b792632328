/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A chunk comes in -> it joins the queue of its transfer -> a worker takes the queue's chunks one by one: checks, feeds,
 * answers. One worker at a time, so that the chunks of a transfer stay in order, while their bytes are looked at without the
 * lock and off the I/O threads.
 *
 * run_transfer hands the call to the dispatcher with a carrier of its own, Run, whose finish() keeps the answer's writer in the
 * transfer and answers everybody who asked. The first who asked lends its workers to the call.
 *
 * Answers leave from where they were written: a reply to get_chunk borrows the bytes and holds a reference of the transfer until
 * it has been sent.
 *
 * Lock: one, for the store, its transfers and what stands here; not held while bytes are looked at or calls are answered. */

#include "plugin/service/chunk_service.h"

#include <string.h>

#include "plugin/chunks/crc32c.h"
#include "plugin/chunks/transfer_store.h"
#include "runtime/error.h"
#include "runtime/sync.h"

struct TpsChunks
{
  TpsWorkerPool *workers;
  gsize answer_chunk_bytes;
  GError *closing_error;

  TpsMutex lock; /* guards everything below */
  TpsCond fired;
  TpsDispatcher *dispatcher; /* what transfers call; NULL = nothing */
  TpsTransferStore *store;
  GHashTable *feeds;    /* by transfer: Feed, while chunks wait or are looked at */
  GHashTable *runs;     /* by transfer: Run, while it runs */
  guint64 timer_id;     /* 0 = none */
  gboolean timer_fires; /* its function has not ended */
  gboolean closing;
};

/* ---- the clock ------------------------------------------------------------------------------ */

static void on_timer (gpointer data);

/* With the lock held. A transfer that is touched is forgotten later, never sooner: one timer is enough. */
static void
arm_timer (TpsChunks *chunks)
{
  gint64 next_ns = tps_transfer_store_get_next_expiry_ns (chunks->store);

  if (chunks->closing || chunks->timer_id != 0 || next_ns == G_MAXINT64)
    return;
  chunks->timer_fires = TRUE;
  chunks->timer_id = tps_worker_pool_add_timer (chunks->workers, next_ns, on_timer, chunks);
}

static void
on_timer (gpointer data)
{
  TpsChunks *chunks = data;

  tps_mutex_lock (&chunks->lock);
  tps_transfer_store_expire (chunks->store, tps_clock_now_ns ());
  chunks->timer_id = 0;
  chunks->timer_fires = FALSE;
  arm_timer (chunks);
  tps_cond_broadcast (&chunks->fired);
  tps_mutex_unlock (&chunks->lock);
}

/* With the lock held: nothing is armed from now on. */
static void
close_timer (TpsChunks *chunks)
{
  chunks->closing = TRUE;
  if (chunks->timer_id == 0 || !tps_worker_pool_cancel_timer (chunks->workers, chunks->timer_id))
    return;
  chunks->timer_id = 0;
  chunks->timer_fires = FALSE;
}

/* ---- life ----------------------------------------------------------------------------------- */

TpsChunks *
tps_chunks_new (const TpsChunksOptions *options)
{
  TpsTransferStoreOptions store = { .max_transfers = options->max_transfers,
                                    .max_bytes = options->max_bytes };
  TpsChunks *chunks = g_new0 (TpsChunks, 1);

  chunks->workers = options->workers;
  chunks->answer_chunk_bytes = options->answer_chunk_bytes > 0 ? options->answer_chunk_bytes
                                                               : TPS_CHUNK_BYTES;
  chunks->closing_error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                               "this server is shutting down");
  chunks->store = tps_transfer_store_new (&store);
  chunks->feeds = g_hash_table_new (NULL, NULL);
  chunks->runs = g_hash_table_new (NULL, NULL);
  tps_mutex_init (&chunks->lock);
  tps_cond_init (&chunks->fired);
  return chunks;
}

void
tps_chunks_free (TpsChunks *chunks)
{
  tps_mutex_lock (&chunks->lock);
  close_timer (chunks);
  while (chunks->timer_fires)
    tps_cond_wait (&chunks->fired, &chunks->lock);
  tps_mutex_unlock (&chunks->lock);
  tps_transfer_store_free (chunks->store);
  g_hash_table_unref (chunks->feeds);
  g_hash_table_unref (chunks->runs);
  g_clear_pointer (&chunks->dispatcher, tps_dispatcher_unref);
  g_error_free (chunks->closing_error);
  tps_cond_clear (&chunks->fired);
  tps_mutex_clear (&chunks->lock);
  g_free (chunks);
}

gboolean
tps_chunks_set_services (TpsChunks *chunks, const TpsService *services, guint n_services,
                         const gchar *default_service, GError **error)
{
  g_autoptr (GArray) others = g_array_new (FALSE, FALSE, sizeof (TpsService));
  g_autoptr (TpsDispatcher) replaced = NULL;
  TpsDispatcher *dispatcher;

  for (guint i = 0; i < n_services; i++)
    if (strcmp (services[i].name, TPS_CHUNKS_SERVICE_NAME) != 0)
      g_array_append_val (others, services[i]);
  dispatcher = tps_dispatcher_new ((const TpsService *) (gpointer) others->data, others->len,
                                   default_service, error);
  if (dispatcher == NULL)
    return FALSE;
  tps_mutex_lock (&chunks->lock);
  replaced = chunks->dispatcher;
  chunks->dispatcher = dispatcher;
  tps_mutex_unlock (&chunks->lock);
  return TRUE;
}

static void
answer (TpsCall *call, gboolean ok, const GError *error)
{
  if (ok)
    tps_call_reply (call, NULL, NULL);
  else
    tps_call_reply_error (call, error);
}

/* ---- begin_transfer, end_transfer ----------------------------------------------------------- */

static gboolean
begin (TpsChunks *chunks, const TpsTransferArguments *arguments, gint32 *n_received, GError **error)
{
  TpsTransfer *transfer = NULL;

  tps_mutex_lock (&chunks->lock);
  if (chunks->closing)
    g_propagate_error (error, g_error_copy (chunks->closing_error));
  else
    transfer = tps_transfer_store_begin (chunks->store, arguments->transfer, arguments->bytes,
                                         arguments->count, tps_clock_now_ns (), error);
  if (transfer != NULL)
    {
      *n_received = tps_transfer_get_n_received (transfer);
      arm_timer (chunks);
    }
  tps_mutex_unlock (&chunks->lock);
  return transfer != NULL;
}

static void
handle_begin_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  gint32 n_received = 0;
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (tps_begin_transfer_arguments_decode (&in, &arguments, &error)
      && begin (service, &arguments, &n_received, &error))
    tps_call_reply (call, tps_begin_transfer_result_encode, &n_received);
  else
    tps_call_reply_error (call, error);
}

static void
end (TpsChunks *chunks, const gchar *name)
{
  tps_mutex_lock (&chunks->lock);
  tps_transfer_store_end (chunks->store, name);
  tps_mutex_unlock (&chunks->lock);
}

static void
handle_end_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  TpsReader in;
  gboolean ok;

  tps_call_get_arguments (call, &in);
  ok = tps_end_transfer_arguments_decode (&in, &arguments, &error);
  if (ok)
    end (service, arguments.transfer);
  answer (call, ok, error);
}

/* ---- put_chunk ------------------------------------------------------------------------------ */

typedef struct
{
  TpsCall *call;
  TpsChunk chunk;
} Put;

/* The chunks of one transfer that wait, while a worker takes them. */
typedef struct
{
  TpsChunks *chunks;
  TpsTransfer *transfer; /* a reference */
  GQueue puts;           /* of Put; the lock */
} Feed;

static void
put_free (Put *put)
{
  tps_chunk_clear (&put->chunk);
  g_free (put);
}

static gboolean
feed_chunk (const Feed *feed, const TpsChunk *chunk, GError **error)
{
  TpsChunkVerdict verdict = tps_transfer_check (feed->transfer, chunk, error);

  if (verdict != TPS_CHUNK_NEXT)
    return verdict == TPS_CHUNK_REPEATED;
  if (!tps_transfer_feed (feed->transfer, chunk, error))
    {
      end (feed->chunks, chunk->transfer);
      return FALSE;
    }
  tps_mutex_lock (&feed->chunks->lock);
  tps_transfer_advance (feed->transfer);
  tps_mutex_unlock (&feed->chunks->lock);
  return TRUE;
}

/* NULL when there is none: the feed is then out of the table and freed. */
static Put *
next_put (Feed *feed)
{
  Put *put;

  tps_mutex_lock (&feed->chunks->lock);
  put = g_queue_pop_head (&feed->puts);
  if (put == NULL)
    g_hash_table_remove (feed->chunks->feeds, feed->transfer);
  tps_mutex_unlock (&feed->chunks->lock);
  if (put != NULL)
    return put;
  tps_transfer_unref (feed->transfer);
  g_free (feed);
  return NULL;
}

/* On a worker. With the answer to its last call the service may be gone: so that comes last. */
static void
run_feed (TpsCall *unused, gpointer user_data)
{
  Feed *feed = user_data;
  Put *put = next_put (feed);

  while (put != NULL)
    {
      g_autoptr (GError) error = NULL;
      gboolean ok = feed_chunk (feed, &put->chunk, &error);
      TpsCall *call = put->call;

      put_free (put);
      put = next_put (feed);
      answer (call, ok, error);
    }
}

/* With the lock held: the feed that the chunk has joined; sets `is_new` where nobody takes its chunks yet. NULL: no such
 * transfer. */
static Feed *
join_feed (TpsChunks *chunks, Put *put, gboolean *is_new, GError **error)
{
  TpsTransfer *transfer = tps_transfer_store_find (chunks->store, put->chunk.transfer,
                                                   tps_clock_now_ns (), error);
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
  TpsReader in;

  put->call = call;
  tps_call_get_arguments (call, &in);
  if (tps_put_chunk_arguments_decode (&in, &put->chunk, &error))
    {
      tps_mutex_lock (&chunks->lock);
      feed = join_feed (chunks, put, &is_new, &error);
      tps_mutex_unlock (&chunks->lock);
    }
  if (feed == NULL)
    {
      put_free (put);
      tps_call_reply_error (call, error);
    }
  else if (is_new)
    tps_call_run_on_worker (call, run_feed, feed);
}

/* ---- answers -------------------------------------------------------------------------------- */

/* What a reply says, and the transfer whose bytes it sends. */
typedef struct
{
  TpsTransfer *transfer;
  TpsChunkPieces chunk;
  TpsLargeAnswerPieces large;
} Reply;

static void
hold_transfer (TpsWriter *out, TpsTransfer *transfer)
{
  tps_writer_set_released (out, (GDestroyNotify) tps_transfer_unref, tps_transfer_ref (transfer));
}

static void
write_large_answer (TpsWriter *out, gconstpointer data)
{
  const Reply *reply = data;

  tps_run_transfer_result_encode (out, &reply->large);
  hold_transfer (out, reply->transfer);
}

static void
write_chunk (TpsWriter *out, gconstpointer data)
{
  const Reply *reply = data;

  tps_get_chunk_result_encode (out, &reply->chunk);
  hold_transfer (out, reply->transfer);
}

static TpsChunkLayout
get_answer_layout (const TpsChunks *chunks, TpsTransfer *transfer)
{
  return tps_chunk_layout (tps_transfer_get_n_bytes (transfer), chunks->answer_chunk_bytes);
}

/* The answer of a call, to one who asked for it. */
static void
reply_answered (const TpsChunks *chunks, TpsCall *call, TpsTransfer *transfer)
{
  TpsChunkLayout layout = get_answer_layout (chunks, transfer);
  Reply reply = { .transfer = transfer, .large.bytes = layout.n_bytes };

  if (layout.n_chunks > 1)
    reply.large.count = layout.n_chunks;
  else
    reply.large.pieces = tps_writer_get_pieces (tps_transfer_get_answer (transfer),
                                                &reply.large.n_pieces, NULL);
  tps_call_reply (call, write_large_answer, &reply);
}

static gboolean
check_answer_index (const TpsTransfer *transfer, const TpsChunkLayout *layout, gint32 index,
                    GError **error)
{
  if (index >= 0 && index < layout->n_chunks)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "index is %d: the answer of transfer %s has %d chunks", index,
               tps_transfer_get_name (transfer), layout->n_chunks);
  return FALSE;
}

static void
reply_chunk (const TpsChunks *chunks, TpsCall *call, TpsTransfer *transfer, gint32 index)
{
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
  g_autoptr (GError) error = NULL;
  TpsChunkLayout layout = get_answer_layout (chunks, transfer);
  Reply reply = { .transfer = transfer };

  if (!check_answer_index (transfer, &layout, index, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  tps_chunk_layout_get_pieces (&layout, index, tps_transfer_get_answer (transfer), pieces);
  reply.chunk = (TpsChunkPieces) {
    .transfer = tps_transfer_get_name (transfer),
    .index = index,
    .count = layout.n_chunks,
    .pieces = (const struct iovec *) (gpointer) pieces->data,
    .n_pieces = pieces->len,
  };
  reply.chunk.crc32c = (gint32) tps_crc32c_of_pieces (reply.chunk.pieces, pieces->len);
  tps_call_reply (call, write_chunk, &reply);
}

/* A reference of a transfer that has been answered. */
static TpsTransfer *
find_answered (TpsChunks *chunks, const gchar *name, GError **error)
{
  TpsTransferState state = TPS_TRANSFER_RECEIVING;
  TpsTransfer *transfer;

  tps_mutex_lock (&chunks->lock);
  transfer = tps_transfer_store_find (chunks->store, name, tps_clock_now_ns (), error);
  if (transfer != NULL)
    state = tps_transfer_get_state (transfer);
  if (state == TPS_TRANSFER_ANSWERED)
    tps_transfer_ref (transfer);
  tps_mutex_unlock (&chunks->lock);
  if (transfer == NULL || state == TPS_TRANSFER_ANSWERED)
    return transfer;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "transfer %s has no answer yet: it is %s", name, tps_transfer_state_name (state));
  return NULL;
}

/* On a worker: reads the bytes for their CRC. */
static void
handle_get_chunk (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (TpsTransfer) transfer = NULL;
  g_autoptr (GError) error = NULL;
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (tps_get_chunk_arguments_decode (&in, &arguments, &error))
    transfer = find_answered (service, arguments.transfer, &error);
  if (transfer != NULL)
    reply_chunk (service, call, transfer, arguments.index);
  else
    tps_call_reply_error (call, error);
}

/* ---- run_transfer --------------------------------------------------------------------------- */

/* A call that runs; `carried` of its carrier. */
typedef struct
{
  TpsChunks *chunks;
  TpsTransfer *transfer; /* a reference */
  TpsCall *lender;       /* of workers: the first who asked */
  GPtrArray *askers;     /* of TpsCall, the lender first; the lock */
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

static void
run_on_worker (gpointer carried, TpsJobFunc func, gpointer user_data)
{
  const Run *run = carried;
  Job *job = g_new (Job, 1);

  job->func = func;
  job->user_data = user_data;
  tps_call_run_on_worker (run->lender, run_job, job);
}

static void
finish_run (gpointer carried, TpsWriter *reply)
{
  Run *run = carried;
  TpsChunks *chunks = run->chunks;

  tps_mutex_lock (&chunks->lock);
  g_hash_table_remove (chunks->runs, run->transfer);
  tps_transfer_store_answer (chunks->store, run->transfer, reply, tps_clock_now_ns ());
  arm_timer (chunks);
  tps_mutex_unlock (&chunks->lock);
  for (guint i = 0; i < run->askers->len; i++)
    reply_answered (chunks, run->askers->pdata[i], run->transfer);
  g_ptr_array_unref (run->askers);
  tps_transfer_unref (run->transfer);
  g_free (run);
}

static const TpsCarrierOps run_ops = {
  .may_wait = may_wait,
  .run_on_worker = run_on_worker,
  .finish = finish_run,
};

/* With the lock held: the call of a complete transfer and the Run that will carry it. */
static TpsMessage *
begin_run (TpsChunks *chunks, TpsTransfer *transfer, TpsCall *call, Run **run, GError **error)
{
  TpsMessage *message = tps_transfer_take_call (transfer, error);

  if (message == NULL)
    return NULL;
  *run = g_new0 (Run, 1);
  (*run)->chunks = chunks;
  (*run)->transfer = tps_transfer_ref (transfer);
  (*run)->lender = call;
  (*run)->askers = g_ptr_array_new ();
  g_ptr_array_add ((*run)->askers, call);
  g_hash_table_insert (chunks->runs, transfer, *run);
  return message;
}

/* With the lock held: one more who waits for the answer. */
static void
join_run (TpsChunks *chunks, TpsTransfer *transfer, TpsCall *call, GError **error)
{
  Run *run = g_hash_table_lookup (chunks->runs, transfer);

  if (tps_call_may_wait (call))
    {
      g_ptr_array_add (run->askers, call);
      return;
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "transfer %s runs, and this server cannot wait: it serves one connection at a time",
               tps_transfer_get_name (transfer));
}

static void
dispatch (TpsChunks *chunks, TpsMessage *message, Run *run)
{
  g_autoptr (TpsDispatcher) dispatcher = NULL;
  g_autoptr (GError) refuse = NULL;

  tps_mutex_lock (&chunks->lock);
  dispatcher = tps_dispatcher_ref (chunks->dispatcher);
  if (chunks->closing)
    refuse = g_error_copy (chunks->closing_error);
  tps_mutex_unlock (&chunks->lock);
  tps_dispatcher_handle (dispatcher, message, refuse, &run_ops, run);
}

/* Finds the transfer and joins those who wait for its answer, or begins to run it: sets `message` and `run`. A reference of
 * the transfer where it has been answered. */
static TpsTransfer *
enter_run (TpsChunks *chunks, TpsCall *call, const gchar *name, TpsMessage **message, Run **run,
           GError **error)
{
  TpsTransfer *transfer = tps_transfer_store_find (chunks->store, name, tps_clock_now_ns (), error);

  if (transfer == NULL)
    return NULL;
  g_assert (chunks->dispatcher != NULL);
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

  tps_mutex_lock (&chunks->lock);
  answered = enter_run (chunks, call, name, &message, &run, &error);
  tps_mutex_unlock (&chunks->lock);
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
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (tps_run_transfer_arguments_decode (&in, &arguments, &error))
    run_transfer (service, call, arguments.transfer);
  else
    tps_call_reply_error (call, error);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* What runs is ended by its own service. The workers are not needed any more: they may go before the object does. */
static void
shut_down (gpointer object)
{
  TpsChunks *chunks = object;

  tps_mutex_lock (&chunks->lock);
  close_timer (chunks);
  tps_mutex_unlock (&chunks->lock);
}

static gboolean
keep_answer (gpointer object, TpsWriter *reply, gchar **name, GError **error)
{
  TpsChunks *chunks = object;
  TpsTransfer *transfer;

  tps_mutex_lock (&chunks->lock);
  transfer = tps_transfer_store_keep (chunks->store, reply, tps_clock_now_ns (), error);
  if (transfer != NULL)
    {
      *name = g_strdup (tps_transfer_get_name (transfer));
      arm_timer (chunks);
    }
  tps_mutex_unlock (&chunks->lock);
  return transfer != NULL;
}

static const TpsMethod methods[] = {
  { "begin_transfer", handle_begin_transfer, FALSE },
  { "put_chunk", handle_put_chunk, FALSE }, /* finds a worker by itself */
  { "run_transfer", handle_run_transfer, FALSE },
  { "get_chunk", handle_get_chunk, TRUE },
  { "end_transfer", handle_end_transfer, FALSE },
  { NULL },
};

TpsService
tps_chunk_service (TpsChunks *chunks)
{
  return (TpsService) { .name = TPS_CHUNKS_SERVICE_NAME,
                        .methods = methods,
                        .object = chunks,
                        .shut_down = shut_down,
                        .keep_answer = keep_answer };
}
