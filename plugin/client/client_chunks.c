/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls and answers that no frame can hold: whoever made the call sees nothing of it.
 *
 * A large message is written in binary protocol and inline. It goes in a frame where the server reads such frames, which it is
 * asked once a connection, and in chunks otherwise. An answer that says where the real one waits is replaced by that. */

#include "plugin/client/chunked_call.h"
#include "plugin/client/client_private.h"
#include "plugin/client/reply.h"
#include "runtime/base/error.h"

#define CHUNKS_SERVICE "Chunks"
#define FRAME_LENGTH_BYTES 4
#define MIN_ASK_BYTES 512 /* Node.describe has fewer */
#define MAX_LIMITS_LOST 2 /* questions that cost the connection, before no more are asked */

/* ---- what chunks need of a client ----------------------------------------------------------- */

static void
call_chunks (gpointer client, const TpsRpc *rpc, gconstpointer arguments, gint64 deadline_ns,
             TpsClientDone done, gpointer user_data)
{
  tps_client_call_rpc (client, rpc, arguments, deadline_ns, done, user_data);
}

static void
delay_chunks (gpointer client, gint64 until_ns, TpsClientDelayed func, gpointer user_data)
{
  tps_client_delay (client, until_ns, func, user_data);
}

static gint64
get_now_ns (gpointer client)
{
  return tps_clock_now_ns ();
}

static TpsChunkedOptions
get_options (const TpsClientCall *call)
{
  static const TpsChunkedOps ops = { call_chunks, delay_chunks, get_now_ns };

  return (TpsChunkedOptions) {
    .ops = &ops, .client = call->client, .name = call->name->str, .deadline_ns = call->deadline_ns
  };
}

/* The answer in chunks must answer this call. Takes over both. */
static void
set_outcome (TpsClientCall *call, TpsMessage *answer, GError *error)
{
  g_clear_pointer (&call->reply, tps_message_free);
  if (answer != NULL && answer->kind != TPS_MESSAGE_EXCEPTION
      && (answer->kind != TPS_MESSAGE_REPLY || !tps_reply_has_name (answer, call->name->str)))
    {
      error = g_error_new (TPS_ERROR, TPS_ERROR_INTERNAL,
                           "%s answered %s in chunks with another message: \"%s\"",
                           call->client->where, call->name->str, answer->name);
      g_clear_pointer (&answer, tps_message_free);
    }
  call->reply = answer;
  call->error = error;
}

/* ---- large calls ---------------------------------------------------------------------------- */

static gsize
get_frame_bytes (const TpsClientCall *call)
{
  guint n_pieces;
  gsize n_bytes;

  tps_writer_get_pieces (call->writer, &n_pieces, &n_bytes);
  return n_bytes - FRAME_LENGTH_BYTES;
}

static gboolean
fits (const TpsPeerFacts *facts, gsize n_bytes)
{
  return facts->max_frame_bytes == 0 || n_bytes <= (guint64) facts->max_frame_bytes;
}

gboolean
tps_client_call_may_be_too_large (TpsClientCall *call)
{
  TpsClient *client = call->client;
  gsize n_bytes = get_frame_bytes (call);
  TpsPeerFacts facts;
  guint64 number;

  /* Neither the question nor a chunk can be a reason to ask. */
  if (n_bytes <= MAX (client->ask_bytes, MIN_ASK_BYTES)
      || g_str_has_prefix (call->name->str, CHUNKS_SERVICE ":"))
    return FALSE;
  tps_mutex_lock (&client->lock);
  number = client->link != NULL ? client->link->number : 0;
  tps_mutex_unlock (&client->lock);
  return number == 0 || !tps_client_get_facts (client, number, &facts) || !fits (&facts, n_bytes);
}

gboolean
tps_client_call_end_large (TpsClientCall *call, GError **error)
{
  call->is_framable = tps_writer_message_end (call->writer, NULL);
  return call->is_framable || tps_writer_message_end_transferred (call->writer, error);
}

static void
on_sent (gpointer user_data, TpsMessage *answer, GError *error)
{
  TpsClientCall *call = user_data;

  set_outcome (call, answer, error);
  tps_writer_free (g_steal_pointer (&call->writer));
  tps_client_call_decided (call);
}

static void
send_in_chunks (TpsClientCall *call, const TpsPeerFacts *facts)
{
  TpsChunkedOptions options = get_options (call);
  GError *error = NULL;

  options.max_frame_bytes = (gsize) facts->max_frame_bytes;
  if (tps_writer_message_end_transferred (call->writer, &error))
    tps_chunked_call_send (&options, call->writer, on_sent, call);
  else
    on_sent (call, NULL, error);
}

/* Some servers close the connection when they are asked for a service that they do not have: they read what they read. */
static gboolean
is_silent (TpsClientCall *call, const GError *error)
{
  if (!call->is_framable || !g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    return FALSE;
  atomic_fetch_add (&call->client->n_limits_lost, 1);
  return TRUE;
}

static void
on_limit_known (gpointer user_data, const TpsPeerFacts *facts, const GError *error)
{
  TpsClientCall *call = user_data;

  if (error != NULL && !is_silent (call, error))
    on_sent (call, NULL, g_error_copy (error));
  else if (error != NULL || (call->is_framable && fits (facts, get_frame_bytes (call))))
    tps_client_call_submit (call);
  else
    send_in_chunks (call, facts);
}

void
tps_client_call_send_large (TpsClientCall *call)
{
  TpsClient *client = call->client;

  if (call->is_framable && atomic_load (&client->n_limits_lost) >= MAX_LIMITS_LOST)
    tps_client_call_submit (call);
  else
    tps_client_ask_peer (client, call->deadline_ns, on_limit_known, call);
}

/* ---- large answers -------------------------------------------------------------------------- */

static void
on_fetched (gpointer user_data, TpsMessage *answer, GError *error)
{
  TpsClientCall *call = user_data;

  set_outcome (call, answer, error);
  tps_client_call_finish (call);
}

gboolean
tps_client_call_fetch_answer (TpsClientCall *call)
{
  g_autofree gchar *transfer = NULL;
  TpsChunkedOptions options;

  if (call->reply == NULL || call->is_fetched)
    return FALSE;
  transfer = tps_reply_dup_transfer (call->reply);
  if (transfer == NULL)
    return FALSE;
  call->is_fetched = TRUE;
  options = get_options (call);
  tps_chunked_call_fetch (&options, transfer, on_fetched, call);
  return TRUE;
}
