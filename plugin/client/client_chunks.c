/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client_chunks.h"

#include "plugin/client/channel.h"
#include "plugin/client/chunked_call.h"
#include "plugin/client/client_call.h"
#include "plugin/client/negotiation.h"
#include "plugin/client/reply.h"
#include "runtime/base/error.h"

#define FRAME_LENGTH_BYTES 4

/* ---- operations for chunked calls ----------------------------------------------------------- */

static void
call_chunks (gpointer client, const TpsRpc *rpc, gconstpointer arguments, gint64 deadline_ns,
             TpsClientDone done, gpointer user_data)
{
  tps_channel_call (client, rpc, arguments, deadline_ns, done, user_data);
}

static void
delay_chunks (gpointer client, gint64 until_ns, TpsClientDelayed func, gpointer user_data)
{
  tps_channel_delay (client, until_ns, func, user_data);
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

/* Sets the outcome of a call in chunks, and takes ownership of both arguments. If the message is
 * not a reply to this call, the call fails with INTERNAL. */
static void
set_outcome (TpsClientCall *call, TpsMessage *answer, GError *error)
{
  g_clear_pointer (&call->reply, tps_message_free);
  if (answer != NULL && answer->kind != TPS_MESSAGE_EXCEPTION
      && (answer->kind != TPS_MESSAGE_REPLY || !tps_reply_has_name (answer, call->name->str)))
    {
      error = g_error_new (TPS_ERROR, TPS_ERROR_INTERNAL,
                           "%s replied to %s in chunks with another message: \"%s\"",
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
  gboolean fits_frame;

  if (n_bytes <= client->ask_bytes)
    return FALSE;
  tps_mutex_lock (&client->lock);
  fits_frame = client->link != NULL && tps_negotiation_get (client->link, &facts)
               && fits (&facts, n_bytes);
  tps_mutex_unlock (&client->lock);
  return !fits_frame;
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

/* Returns TRUE if the message can be sent in a frame although the limits of the server are unknown.
 * Some servers close the connection instead of replying to the request for their limits. */
static gboolean
is_silent (const TpsClientCall *call, const GError *error)
{
  return call->is_framable && g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST);
}

static void
on_negotiated (TpsClientCall *call, const TpsPeerFacts *facts, const GError *error)
{
  if (error != NULL && !is_silent (call, error))
    on_sent (call, NULL, g_error_copy (error));
  else if (error != NULL || (call->is_framable && fits (facts, get_frame_bytes (call))))
    tps_channel_submit (call);
  else
    send_in_chunks (call, facts);
}

void
tps_client_call_send_large (TpsClientCall *call)
{
  tps_negotiation_await (call, on_negotiated);
}

/* ---- large replies -------------------------------------------------------------------------- */

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
