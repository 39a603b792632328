/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client.h"

#include "plugin/client/channel.h"
#include "plugin/client/client_call.h"
#include "plugin/client/client_chunks.h"
#include "plugin/client/client_sharing.h"
#include "plugin/client/deadlines.h"
#include "runtime/base/error.h"

#define DEFAULT_MAX_MESSAGE_BYTES \
  ((gsize) G_MAXINT32) /* limit of a frame; longer replies come in chunks */
#define DEFAULT_ASK_BYTES ((gsize) 32 << 20)
#define DEFAULT_CONNECT_TIMEOUT_NS ((gint64) 10 * 1000000000)
#define DEFAULT_MAX_IN_FLIGHT 1024
#define DEFAULT_MAX_SHARED_BYTES ((gsize) 1 << 30)

static gsize
max_shared_bytes (const TpsClientOptions *options, const TpsAddress *address)
{
  if (address->path == NULL || options->no_shared_memory)
    return 0;
  return options->max_shared_bytes > 0 ? options->max_shared_bytes : DEFAULT_MAX_SHARED_BYTES;
}

static void
set_tls (TpsClient *client, const TpsClientOptions *options)
{
  const gchar *host = client->address.host;

  if (options->tls == NULL || client->address.path != NULL)
    return;
  client->tls = tps_tls_ref (options->tls);
  if (options->tls_peer != NULL)
    host = options->tls_peer;
  client->tls_peer = g_strdup (host[0] != '\0' ? host : "localhost");
}

/* Clears the token, which must not remain in freed memory. */
static void
free_secret (gchar *secret)
{
  if (secret != NULL)
    explicit_bzero (secret, strlen (secret));
  g_free (secret);
}

TpsClient *
tps_client_new (const TpsClientOptions *options, GError **error)
{
  g_auto (TpsAddress) address = { 0 };
  TpsLoop *loop;
  TpsClient *client;

  if (!tps_address_parse (options->address, &address, error))
    return NULL;
  loop = tps_loop_new ("tps-client", error);
  if (loop == NULL)
    return NULL;
  client = g_new0 (TpsClient, 1);
  client->loop = loop;
  client->where = tps_address_to_string (&address);
  client->max_shared_bytes = max_shared_bytes (options, &address);
  client->shares_answers = options->shares_answers;
  client->lookup_device = options->lookup_device;
  client->wake_pool = tps_client_wake_pool;
  client->address = address;
  address = (TpsAddress) { 0 };
  client->scanner.max_message_bytes = options->max_message_bytes > 0 ? options->max_message_bytes
                                                                     : DEFAULT_MAX_MESSAGE_BYTES;
  client->scanner.bodies = options->bodies != NULL ? tps_buffer_pool_ref (options->bodies) : NULL;
  set_tls (client, options);
  client->token = g_strdup (options->token);
  client->connect_timeout_ns = options->connect_timeout_ns > 0 ? options->connect_timeout_ns
                                                               : DEFAULT_CONNECT_TIMEOUT_NS;
  client->max_in_flight = options->max_in_flight > 0 ? options->max_in_flight
                                                     : DEFAULT_MAX_IN_FLIGHT;
  client->ask_bytes = options->ask_bytes > 0 ? options->ask_bytes : DEFAULT_ASK_BYTES;
  client->protocol = options->protocol != 0 ? options->protocol : TPS_PROTOCOL_BINARY;
  tps_mutex_init (&client->lock);
  tps_cond_init (&client->idle);
  client->wake_ns = TPS_CLIENT_NEVER;
  return client;
}

gboolean
tps_client_set_traceparent (TpsClient *client, const gchar *traceparent, GError **error)
{
  TpsTraceContext context = { { 0 } };

  if (traceparent != NULL && !tps_trace_context_parse (traceparent, &context))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "\"%.80s\" is not a traceparent of W3C Trace Context", traceparent);
      return FALSE;
    }
  tps_mutex_lock (&client->lock);
  client->context = context;
  atomic_store_explicit (&client->is_traced, traceparent != NULL, memory_order_relaxed);
  tps_mutex_unlock (&client->lock);
  return TRUE;
}

/* Removes the delays from the table and returns them. A delay belongs to no link, so
 * tps_client_lose_link() does not end it. Must be called with client->lock held. */
static GPtrArray *
take_delays (TpsClient *client)
{
  GPtrArray *delays = g_ptr_array_new ();
  TpsClientCall *call = NULL;

  while ((call = tps_call_table_get_next (&client->calls, call)) != NULL)
    if (call->delayed != NULL)
      g_ptr_array_add (delays, call);
  for (guint i = 0; i < delays->len; i++)
    tps_call_table_remove (&client->calls, delays->pdata[i]);
  return delays;
}

void
tps_client_cancel (TpsClient *client)
{
  g_autoptr (GPtrArray) delays = NULL;
  g_autoptr (GError) error = tps_channel_cancelled_error (client);

  tps_channel_enter (client);
  tps_mutex_lock (&client->lock);
  client->cancelled = TRUE;
  delays = take_delays (client);
  tps_mutex_unlock (&client->lock);
  for (guint i = 0; i < delays->len; i++)
    tps_client_call_fail (delays->pdata[i], g_error_copy (error));
  tps_client_lose_link (client, NULL, error);
  tps_channel_leave (client);
}

void
tps_client_free (TpsClient *client)
{
  if (client == NULL)
    return;
  tps_client_cancel (client);
  tps_mutex_lock (&client->lock);
  while (client->n_callers > 0 || client->n_calls > 0 || client->n_links > 0)
    tps_cond_wait (&client->idle, &client->lock);
  tps_mutex_unlock (&client->lock);
  tps_loop_post (client->loop, tps_deadlines_clear_timer, client);
  tps_loop_free (client->loop);
  tps_cond_clear (&client->idle);
  tps_mutex_clear (&client->lock);
  tps_address_clear (&client->address);
  g_clear_pointer (&client->scanner.bodies, tps_buffer_pool_unref);
  tps_tls_unref (client->tls);
  g_free (client->tls_peer);
  free_secret (client->token);
  g_free (client->where);
  g_free (client);
}

/* Writes the message. If it may not fit into a frame, writes it again as a large message. */
static GError *
call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  GError *error = NULL;

  tps_client_call_take_lease (call);
  tps_client_call_write (call, write, write_data);
  if (!tps_writer_message_end (call->writer, NULL) || tps_client_call_may_be_too_large (call))
    {
      tps_client_call_unwrite (call);
      call->is_large = TRUE;
      tps_client_call_write (call, write, write_data);
      if (!tps_client_call_end_large (call, &error))
        return error;
    }
  tps_client_call_written (call);
  return NULL;
}

/* Sends the written call. FALSE: the link for which the call was written is down, and the call must
 * be written again. */
static gboolean
call_send (TpsClientCall *call)
{
  if (!call->is_large)
    return tps_channel_submit (call);
  tps_client_call_send_large (call);
  return TRUE;
}

static void
call_start (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  GError *error = tps_channel_register (call);

  while (error == NULL)
    {
      error = call_write (call, write, write_data);
      if (error == NULL && call_send (call))
        return;
      if (error == NULL)
        tps_client_call_unwrite (call);
    }
  tps_channel_refuse (call, error);
}

void
tps_client_call (TpsClient *client, const gchar *service, const gchar *method,
                 TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                 TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, deadline_ns, user_data);

  tps_client_call_set_name (call, service, method);
  call->done = done;
  call->goes_on = tps_client_call_fetch_answer;
  tps_channel_enter (client);
  call_start (call, write, write_data);
  tps_channel_leave (client);
}

void
tps_client_call_rpc (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                     gint64 deadline_ns, TpsClientDone done, gpointer user_data)
{
  TpsRpcValue value = { rpc, arguments };

  tps_client_call (client, rpc->service, rpc->name, tps_rpc_value_write_arguments, &value,
                   deadline_ns, done, user_data);
}

void
tps_client_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func, gpointer user_data)
{
  tps_channel_delay (client, until_ns, func, user_data);
}
