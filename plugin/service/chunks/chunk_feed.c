/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/chunks/chunk_service_private.h"
#include "runtime/base/error.h"

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

/* Ends the transfer of the feed, because its bytes are not a valid message. It may have given way
 * meanwhile, and a new transfer may have its name. */
static void
forget (const Feed *feed)
{
  const gchar *name = tps_transfer_get_name (feed->transfer);
  TpsTransfer *forgotten = NULL;

  tps_mutex_lock (&feed->chunks->shell.lock);
  if (tps_transfer_store_find (feed->chunks->store, name, NULL) == feed->transfer)
    forgotten = tps_transfer_store_end (feed->chunks->store, name);
  tps_mutex_unlock (&feed->chunks->shell.lock);
  g_clear_pointer (&forgotten, tps_transfer_unref);
}

/* Counts the bytes of a chunk, and frees the transfers that give way to it. */
static gboolean
reserve (const Feed *feed, const TpsChunk *chunk, GError **error)
{
  g_autoptr (GPtrArray)
      dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_transfer_unref);
  TpsTransferNeed need = { .now_ns = tps_clock_now_ns (), .dropped = dropped };
  gboolean has_room;

  tps_mutex_lock (&feed->chunks->shell.lock);
  has_room = tps_transfer_store_reserve (feed->chunks->store, feed->transfer,
                                         g_bytes_get_size (chunk->data.received), &need, error);
  tps_mutex_unlock (&feed->chunks->shell.lock);
  return has_room;
}

static gboolean
feed_chunk (const Feed *feed, const TpsChunk *chunk, GError **error)
{
  TpsChunkVerdict verdict = tps_transfer_check (feed->transfer, chunk, error);
  gboolean is_there;

  if (verdict != TPS_CHUNK_NEXT)
    return verdict == TPS_CHUNK_REPEATED;
  if (!reserve (feed, chunk, error))
    return FALSE;
  if (!tps_transfer_feed (feed->transfer, chunk, error))
    {
      forget (feed);
      return FALSE;
    }
  tps_mutex_lock (&feed->chunks->shell.lock);
  tps_transfer_advance (feed->transfer);
  is_there = tps_transfer_store_touch (feed->chunks->store, feed->transfer, tps_clock_now_ns (),
                                       error);
  tps_mutex_unlock (&feed->chunks->shell.lock);
  return is_there;
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
  TpsTransfer *transfer = tps_chunks_find (chunks, put->call, put->chunk.transfer, error);
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

void
tps_chunks_handle_put_chunk (TpsCall *call, gpointer service)
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
