/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client.h"

#include "plugin/client/chunked_call.h"
#include "plugin/client/client_link.h"
#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "runtime/base/sized.h"

/* ---- deadlines ------------------------------------------------------------------------------ */

/* One timer for all calls is set at or before the earliest deadline. Successive calls with the same
 * timeout do not touch the timer.
 *
 * A call whose deadline passes ends: its sequence id leaves the table, and a late reply is dropped
 * with its bodies. The treatment of the call's bytes depends on their state:
 *
 *   unsent      The call waits for a connection or a negotiation: the writer is freed.
 *   sent        The socket has taken all bytes: there is nothing to release.
 *   in between  Bytes wait in the connection. The connection is closed, because a partial message
 *               cannot be resumed. The other calls of the connection fail with CONNECTION_LOST. The
 *               next call reconnects.
 *
 * The third rule also holds if a peer replies before it has read the whole call. The outcome is the
 * reply, but `done` is not called before the bytes have been sent or the deadline has closed the
 * connection. */

static void on_deadline (gpointer user_data);

/* Sets the timer to wake_ns. A TpsLoopFunc; `user_data` is the client. */
static void
set_timer (gpointer user_data)
{
  TpsClient *client = user_data;
  gint64 wake_ns;

  tps_mutex_lock (&client->lock);
  wake_ns = client->wake_ns;
  tps_mutex_unlock (&client->lock);
  if (client->timer_id != 0)
    tps_loop_cancel_timer (client->loop, client->timer_id);
  client->timer_id = wake_ns == TPS_CLIENT_NEVER
                         ? 0
                         : tps_loop_add_timer (client->loop, wake_ns, on_deadline, client);
}

/* Removes the expired calls from the table and returns them. `orphans` receives the unsent writers;
 * they must be freed without the lock. An answered call with unsent bytes is returned, too, but it
 * stays in the table: expire() only closes its link. */
static GPtrArray *
take_expired (TpsClient *client, GPtrArray *orphans)
{
  gint64 now_ns = tps_clock_now_ns ();
  GPtrArray *expired = g_ptr_array_new ();
  TpsClientCall *next = NULL;

  TPS_LOCK_SCOPE (&client->lock);
  client->wake_ns = TPS_CLIENT_NEVER;
  while ((next = tps_call_table_get_next (&client->calls, next)) != NULL)
    if (next->deadline_ns <= now_ns)
      g_ptr_array_add (expired, next);
    else
      client->wake_ns = MIN (client->wake_ns, next->deadline_ns);
  for (guint i = 0; i < expired->len; i++)
    {
      TpsClientCall *call = expired->pdata[i];
      TpsWriter *orphan = call->answered ? NULL : tps_client_call_forget (call);

      if (tps_client_call_is_being_sent (call))
        call->blocked_link = call->link;
      if (call->answered)
        call->deadline_ns = TPS_CLIENT_NEVER; /* the call stays in the table until it finishes */
      if (orphan != NULL)
        g_ptr_array_add (orphans, orphan);
    }
  return expired;
}

static void
expire (TpsClientCall *call)
{
  if (call->delayed != NULL)
    {
      tps_client_call_decided (call);
      return;
    }
  if (call->blocked_link != NULL)
    {
      g_autoptr (GError) error = g_error_new (
          TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
          "connection closed: %s does not read, and %s had unsent bytes at its deadline",
          call->client->where, call->name->str);

      tps_client_lose_link (call->client, call->blocked_link, error);
    }
  if (!call->answered)
    tps_client_call_fail (
        call,
        g_error_new (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED, "%s: no reply from %s within %.3g s",
                     call->name->str, call->client->where,
                     (gdouble) (call->deadline_ns - call->started_ns) / 1000000000));
}

static void
on_deadline (gpointer user_data)
{
  TpsClient *client = user_data;
  g_autoptr (GPtrArray) orphans = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_writer_free);
  g_autoptr (GPtrArray) expired = take_expired (client, orphans);

  client->timer_id = 0;
  g_ptr_array_set_size (orphans, 0);
  for (guint i = 0; i < expired->len; i++)
    expire (expired->pdata[i]);
  set_timer (client);
}

/* ---- calls on the current link -------------------------------------------------------------- */

/* Mark the time in which a thread uses the client. Any thread except the client's loop must call
 * the first function before it uses the client, and the second one afterwards. tps_client_free()
 * waits for such threads. */
static void
enter (TpsClient *client)
{
  TPS_LOCK_SCOPE (&client->lock);
  client->n_callers++;
}

static void
leave (TpsClient *client)
{
  TPS_LOCK_SCOPE (&client->lock);
  if (--client->n_callers == 0)
    tps_cond_broadcast (&client->idle);
}

/* Returns the client's current link, and creates it if there is none; borrowed. Must be called with
 * client->lock held. */
static TpsClientLink *
get_link (TpsClient *client)
{
  if (client->link == NULL)
    client->link = tps_client_link_new (client);
  return client->link;
}

static GError *
cancelled_error (const TpsClient *client)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_ABORTED, "the client of %s was cancelled",
                      client->where);
}

/* Background calls are not limited. If such a call were refused, the client and the server would
 * disagree about the owner of a segment. */
static GError *
check_call (const TpsClientCall *call)
{
  const TpsClient *client = call->client;

  if (client->cancelled)
    return cancelled_error (client);
  if (call->bound != 0)
    return client->link != NULL && client->link->number == call->bound
               ? NULL
               : g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "%s: the connection is closed",
                              call->name->str);
  if (client->calls.n_calls < client->max_in_flight)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                      "%s: %u calls are in flight, which is the limit (max_in_flight)",
                      client->where, client->max_in_flight);
}

static GError *
check_deadline (const TpsClientCall *call)
{
  if (call->delayed != NULL || call->deadline_ns > call->started_ns)
    return NULL;
  return g_error_new (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                      "%s: the deadline had passed before the call was made", call->name->str);
}

/* Returns TRUE if the call was written for a link that is no longer the client's link. Must be
 * called with client->lock held. */
static gboolean
is_for_another_link (const TpsClientCall *call)
{
  const TpsClientLink *link = call->client->link;

  return call->lease != NULL
         && (link == NULL || !tps_segment_lease_is_of (call->lease, link->pool));
}

/* Counts the call and gives it a sequence id, even if the result is an error. The caller must then
 * pass the error to refuse_call(). Returns NULL on success. Errors: ABORTED, CONNECTION_LOST (the
 * link of a background call is down), RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED. */
static GError *
register_call (TpsClientCall *call)
{
  TpsClient *client = call->client;
  GError *error;

  tps_mutex_lock (&client->lock);
  error = check_call (call);
  client->n_calls++;
  do /* skips 0, the id of peers that do not distinguish calls, and of the token's request */
    call->seqid = (gint32) ++client->n_issued;
  while (call->seqid == 0 || tps_call_table_find (&client->calls, call->seqid) != NULL);
  tps_mutex_unlock (&client->lock);
  return error != NULL ? error : check_deadline (call);
}

/* Ends a registered call that has not been submitted, with the error. */
static void
refuse_call (TpsClientCall *call, GError *error_taken)
{
  g_clear_pointer (&call->writer, tps_writer_free);
  call->error = error_taken;
  tps_loop_post (call->client->loop, tps_client_call_finish, call);
}

/* Puts a call that does not wait for a link into the table. Must be called with client->lock held.
 * Sets `wake` if the caller must post set_timer() to the loop. Returns NULL on success. Errors:
 * ABORTED, CONNECTION_LOST, RESOURCE_EXHAUSTED. */
static GError *
enter_table (TpsClientCall *call, gboolean *wake)
{
  GError *error = check_call (call);

  if (error != NULL)
    return error;
  tps_call_table_insert (&call->client->calls, call);
  *wake = call->deadline_ns < call->client->wake_ns;
  call->client->wake_ns = MIN (call->client->wake_ns, call->deadline_ns);
  return NULL;
}

/* Assigns the call to the current link. Sets `connection` (a reference) if the caller must send the
 * call now. Must be called with client->lock held. */
static void
take_link (TpsClientCall *call, TpsConnection **connection)
{
  TpsClientLink *link = get_link (call->client);

  call->link = link;
  if (call->is_large && link->pool != NULL)
    call->lease = tps_segment_pool_lease (link->pool); /* its reply may use shared memory */
  if (link->up)
    {
      *connection = tps_connection_ref (link->connection);
      return;
    }
  g_queue_push_tail_link (&link->unsent, &call->node);
  call->queue = &link->unsent;
}

/* Sends a registered call whose message is written; from here on, the loop may end the call at any
 * time. FALSE: nothing has happened, because the call's lease belongs to a link that is down. The
 * caller must then write the message again for the new link. Calls without a lease never return
 * FALSE. */
static gboolean
submit (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsConnection) connection = NULL;
  gboolean wake = FALSE;
  GError *error;

  tps_mutex_lock (&client->lock);
  if (!client->cancelled && is_for_another_link (call))
    {
      tps_mutex_unlock (&client->lock);
      return FALSE;
    }
  error = enter_table (call, &wake);
  if (error == NULL && call->delayed == NULL)
    take_link (call, &connection);
  tps_mutex_unlock (&client->lock);
  if (wake)
    tps_loop_post (client->loop, set_timer, client);
  if (connection != NULL)
    tps_client_call_send (call, connection);
  if (error != NULL)
    refuse_call (call, error);
  return TRUE;
}

/* `rpc` is NULL for a delay. */
static void
start_own_call (TpsClientCall *call, const TpsRpc *rpc, gconstpointer arguments)
{
  TpsClient *client = call->client;
  TpsRpcValue value = { rpc, arguments };
  GError *error;

  enter (client);
  if (rpc != NULL)
    tps_client_call_set_name (call, rpc->service, rpc->name);
  error = register_call (call);
  if (error == NULL && rpc != NULL)
    {
      tps_client_call_write (call, tps_rpc_value_write_arguments, &value);
      if (tps_writer_message_end (call->writer, &error))
        tps_client_call_written (call);
    }
  if (error == NULL)
    submit (call);
  else
    refuse_call (call, error);
  leave (client);
}

/* Starts a background call on `link`. The arguments are written before this returns. If the link is
 * down, the call fails with CONNECTION_LOST. The call has no deadline and does not count as an
 * in-flight call. */
static void
call_on_link (TpsClientLink *link, const TpsRpc *rpc, gconstpointer arguments, TpsClientDone done,
              gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (link->client, TPS_CLIENT_NEVER, user_data);

  call->bound = link->number;
  call->done = done;
  start_own_call (call, rpc, arguments);
}

/* ---- negotiation ---------------------------------------------------------------------------- */

/* The facts about the peer of a link (Node.describe): limits and offers of shared memory. Each link
 * makes one request, when the facts are first needed. Small calls never wait for the reply.
 *
 *   unknown service or method   The peer gives no information: all facts are zero.
 *   any other error             The waiting calls fail. The next call that needs the facts repeats
 *                               the request.
 *   lost connection             The next link repeats the request. After MAX_REQUESTS_LOST
 *                               consecutive losses, some links skip the request, and their facts
 *                               are zero, because some servers close the connection if a request
 *                               names an unknown service.
 *
 * If a peer never replies, waiting calls end at their deadlines, and tensors travel inline. */

#define MAX_REQUESTS_LOST 2
#define FIRST_LINKS_TO_SKIP 4u /* doubled after each further lost connection */
#define MAX_DOUBLINGS 4

static void on_negotiated (TpsClientCall *call, const TpsPeerFacts *facts, const GError *error);

/* Returns all zero on error. */
static TpsPeerFacts
read_facts (TpsReader *result, TpsWireType type, GError **error)
{
  g_auto (TpsNodeInfo) info = { 0 };

  if (!tps_rpc_read_answer (&tps_describe_rpc, result, type, &info, error))
    return (TpsPeerFacts) { 0 };
  return (TpsPeerFacts) { .max_frame_bytes = MAX (info.max_frame_bytes, 0),
                          .max_shared_bytes = MAX (info.max_shared_bytes, 0),
                          .shares_device = info.has_shared_device,
                          .shares_lookups = info.has_lookup_device };
}

/* Counts the links that broke on the request. If the link never came up, the request was not the
 * cause. Must be called with client->lock held. */
static void
note_outcome (const TpsClientLink *link, const GError *error)
{
  TpsClient *client = link->client;
  guint n_doublings;

  if (g_error_matches (error, TPS_ERROR, TPS_ERROR_ABORTED))
    return;
  if (!g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    client->n_requests_lost = 0;
  else if (link->up && ++client->n_requests_lost >= MAX_REQUESTS_LOST)
    {
      n_doublings = MIN (client->n_requests_lost - MAX_REQUESTS_LOST, MAX_DOUBLINGS);
      client->n_links_to_skip = FIRST_LINKS_TO_SKIP << n_doublings;
    }
}

/* Removes the waiting calls from the table and returns them. Must be called with client->lock
 * held. */
static GPtrArray *
take_waiting (TpsClientLink *link)
{
  GPtrArray *calls = g_ptr_array_new ();
  GList *node;

  while ((node = g_queue_pop_head_link (&link->negotiation.waiting)) != NULL)
    {
      TpsClientCall *call = node->data;

      call->queue = NULL;
      tps_call_table_remove (&link->client->calls, call);
      g_ptr_array_add (calls, call);
    }
  return calls;
}

/* Passes the peer's offers to the pool. After a failure, all facts must be zero. A malformed reply
 * counts as a reply without offers. */
static void
tell_pool (TpsSegmentPool *pool, const TpsPeerFacts *facts, const GError *failure)
{
  if (g_error_matches (failure, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED)
      || g_error_matches (failure, TPS_ERROR, TPS_ERROR_UNAVAILABLE))
    tps_segment_pool_offer_failed (pool);
  else
    tps_segment_pool_offered (pool, (gsize) facts->max_shared_bytes, facts->shares_device,
                              facts->shares_lookups);
}

static void
on_described (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  g_autoptr (TpsClientLink) link = user_data;
  g_autoptr (GPtrArray) calls = NULL;
  g_autoptr (GError) failure = NULL;
  TpsPeerFacts facts = { 0 };

  if (error == NULL)
    facts = read_facts (result, type, &failure);
  else if (!g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    failure = g_error_copy (error);
  tps_mutex_lock (&link->client->lock);
  note_outcome (link, failure);
  link->negotiation.state = failure == NULL ? TPS_NEGOTIATION_DONE : TPS_NEGOTIATION_NONE;
  link->negotiation.facts = facts;
  calls = take_waiting (link);
  tps_mutex_unlock (&link->client->lock);
  if (link->pool != NULL)
    tell_pool (link->pool, &facts, failure);
  for (guint i = 0; i < calls->len; i++)
    on_negotiated (calls->pdata[i], failure == NULL ? &facts : NULL, failure);
}

/* Returns TRUE if the caller must send the request. Must be called with client->lock held. */
static gboolean
begin_negotiation (TpsClientLink *link)
{
  TpsClient *client = link->client;

  if (link->negotiation.state != TPS_NEGOTIATION_NONE)
    return FALSE;
  if (client->n_links_to_skip > 0)
    {
      client->n_links_to_skip--;
      link->negotiation.state = TPS_NEGOTIATION_DONE;
      return FALSE;
    }
  link->negotiation.state = TPS_NEGOTIATION_REQUESTED;
  return TRUE;
}

static void
send_describe (TpsClientLink *link)
{
  call_on_link (link, &tps_describe_rpc, NULL, on_described, tps_client_link_ref (link));
}

/* Copies the facts to `facts`. FALSE: they are not known yet, and `facts` is all zero. Must be
 * called with client->lock held. */
static gboolean
get_facts (const TpsClientLink *link, TpsPeerFacts *facts)
{
  *facts = link->negotiation.facts;
  return link->negotiation.state == TPS_NEGOTIATION_DONE;
}

static void
on_known (gpointer user_data)
{
  g_autoptr (TpsClientLink) link = user_data;
  g_autoptr (GPtrArray) calls = NULL;

  tps_mutex_lock (&link->client->lock);
  calls = take_waiting (link);
  tps_mutex_unlock (&link->client->lock);
  for (guint i = 0; i < calls->len; i++)
    on_negotiated (calls->pdata[i], &link->negotiation.facts, NULL);
}

/* Calls on_negotiated(), later and on the loop, with the facts of the current link or an error.
 * `call` must have been registered and written. The call waits in the table until then. If its
 * deadline passes or the client is cancelled, the call ends without on_negotiated(). */
static void
await_facts (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsClientLink) link = NULL;
  gboolean must_ask = FALSE;
  gboolean wake = FALSE;
  GError *error;

  tps_mutex_lock (&client->lock);
  error = enter_table (call, &wake);
  if (error == NULL)
    {
      link = tps_client_link_ref (get_link (client));
      must_ask = begin_negotiation (link);
      if (link->negotiation.state == TPS_NEGOTIATION_DONE)
        tps_loop_post (client->loop, on_known, tps_client_link_ref (link));
      call->queue = &link->negotiation.waiting;
      g_queue_push_tail_link (call->queue, &call->node);
    }
  tps_mutex_unlock (&client->lock);
  if (wake)
    tps_loop_post (client->loop, set_timer, client);
  if (must_ask)
    send_describe (link);
  if (error != NULL)
    refuse_call (call, error);
}

/* ---- shared memory -------------------------------------------------------------------------- */

/* A link to a Unix socket has a pool of segments, which decides on the requests to the server. The
 * client sends the requests as background calls: they use this link or fail, have no deadline, and
 * do not count as in-flight calls. If a peer does not answer them, the client sends all tensors to
 * this peer inline. */

/* Logs that the peer offers no shared memory of this kind. No call fails in this case, so the
 * warning is the only sign that tensors travel through the socket. It is logged once per client,
 * because the error recurs on every connection to such a peer. */
static void
warn (TpsClient *client, const GError *why)
{
  gboolean is_first;

  if (g_error_matches (why, TPS_ERROR, TPS_ERROR_CONNECTION_LOST)
      || g_error_matches (why, TPS_ERROR, TPS_ERROR_ABORTED))
    return;
  tps_mutex_lock (&client->lock);
  is_first = !client->has_warned;
  client->has_warned = TRUE;
  tps_mutex_unlock (&client->lock);
  if (is_first)
    g_warning ("memory cannot be shared with %s; large tensors are sent inline: %s", client->where,
               why->message);
}

/* Receives the result of open_segment and of open_lookup_segment, which have the same type. */
static void
on_opened (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  g_autoptr (TpsClientLink) link = user_data;
  gboolean later = g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED);
  g_autoptr (GError) unusable = NULL;
  TpsSegmentInfo info = { 0 };

  if (error != NULL || !tps_rpc_read_answer (&tps_open_segment_rpc, result, type, &info, &unusable))
    later = tps_segment_pool_open_failed (link->pool, later);
  else
    tps_segment_pool_opened (link->pool, info.id, info.n_bytes,
                             info.has_handle ? info.handle : NULL, &unusable);
  if (unusable != NULL || (error != NULL && !later))
    warn (link->client, unusable != NULL ? unusable : error);
}

static void
on_released (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  g_autoptr (TpsClientLink) link = user_data;

  tps_segment_pool_released (link->pool);
}

static void
on_segments_closed (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  g_autoptr (TpsClientLink) link = user_data;

  tps_segment_pool_closed (link->pool);
}

/* Sends all requests that the pool of the link (`user_data`) has now. Thread: any. */
static void
share_memory (gpointer user_data)
{
  TpsClientLink *link = user_data;
  g_auto (TpsSegmentRequest) request = { 0 };

  while (tps_segment_pool_next (link->pool, &request))
    {
      if (request.ask == TPS_SEGMENT_ASK_OFFER)
        {
          gboolean must_ask, is_known;
          TpsPeerFacts facts;

          tps_mutex_lock (&link->client->lock);
          must_ask = begin_negotiation (link);
          is_known = get_facts (link, &facts);
          tps_mutex_unlock (&link->client->lock);
          if (must_ask)
            send_describe (link);
          else if (is_known)
            tell_pool (link->pool, &facts, NULL);
        }
      else if (request.ask == TPS_SEGMENT_ASK_OPEN)
        {
          TpsOpenSegmentArguments arguments = { request.kind, request.use,
                                                (gint64) request.n_bytes };

          if (request.for_lookups)
            call_on_link (link, &tps_open_lookup_segment_rpc, &arguments.n_bytes, on_opened,
                          tps_client_link_ref (link));
          else
            call_on_link (link, &tps_open_segment_rpc, &arguments, on_opened,
                          tps_client_link_ref (link));
        }
      else
        {
          TpsSegmentIds ids = { request.ids->len, (gint64 *) (gpointer) request.ids->data };

          if (request.ask == TPS_SEGMENT_ASK_RELEASE)
            call_on_link (link, &tps_release_segments_rpc, &ids, on_released,
                          tps_client_link_ref (link));
          else
            call_on_link (link, &tps_close_segments_rpc, &ids, on_segments_closed,
                          tps_client_link_ref (link));
        }
      tps_segment_request_clear (&request);
    }
}

/* Called by the pool of a link (`user_data`) when it has requests, for example after the release of
 * the last buffer of a reply. The function is posted before the pool is shut down, and thus
 * before link_tear_down(), so the link still exists then. Thread: any, with locks held. */
static void
wake_pool (gpointer user_data)
{
  TpsClientLink *link = user_data;

  tps_loop_post (link->client->loop, share_memory, link);
}

/* Takes a lease from the pool of the current link, for the tensors of a call whose message is about
 * to be written. Creates the link if there is none. Does nothing on a client without shared
 * memory. */
static void
take_lease (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsClientLink) link = NULL;

  if (client->max_shared_bytes == 0)
    return;
  tps_mutex_lock (&client->lock);
  if (!client->cancelled)
    link = tps_client_link_ref (get_link (client));
  tps_mutex_unlock (&client->lock);
  if (link == NULL)
    return;
  /* The server must receive the releases of segments before the call. */
  share_memory (link);
  call->lease = tps_segment_pool_lease (link->pool);
}

gboolean
tps_client_may_share_device (TpsClient *client, TpsDevice *device)
{
  gboolean may_share;

  TPS_LOCK_SCOPE (&client->lock);
  if (client->link == NULL)
    may_share = client->max_shared_bytes > 0 && client->n_links_to_skip == 0
                && device->ops->open_exported != NULL;
  else
    may_share = client->link->pool != NULL
                && tps_segment_pool_may_take (client->link->pool, device);
  return may_share;
}

TpsBuffer *
tps_client_get_send_memory (TpsClient *client, gsize n_bytes, TpsBuffer *current)
{
  g_autoptr (TpsClientLink) link = NULL;

  tps_mutex_lock (&client->lock);
  if (client->link != NULL && client->link->pool != NULL)
    link = tps_client_link_ref (client->link);
  tps_mutex_unlock (&client->lock);
  if (link == NULL)
    return NULL;
  if (current != NULL && tps_buffer_get_size (current) == n_bytes
      && tps_segment_pool_has_claim (link->pool, current))
    return tps_buffer_ref (current);
  return tps_segment_pool_claim (link->pool, n_bytes);
}

void
tps_client_get_sharing_stats (TpsClient *client, TpsSharingStats *stats)
{
  TPS_LOCK_SCOPE (&client->lock);
  *stats = client->past_stats;
  if (client->link != NULL && client->link->pool != NULL)
    tps_segment_pool_add_stats (client->link->pool, stats);
}

/* ---- large messages ------------------------------------------------------------------------- */

/* A large message is written inline in binary protocol. It is sent in a frame if the server's frame
 * limit, known from the negotiation, permits this, and otherwise in chunks. A reply that names a
 * transfer is replaced by the reply that is fetched from the transfer. */

#define FRAME_LENGTH_BYTES 4

static void
call_chunks (gpointer client, const TpsRpc *rpc, gconstpointer arguments, gint64 deadline_ns,
             TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, deadline_ns, user_data);

  call->done = done;
  start_own_call (call, rpc, arguments);
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
get_chunked_options (const TpsClientCall *call)
{
  static const TpsChunkedOps ops = { call_chunks, delay_chunks, get_now_ns };

  return (TpsChunkedOptions) { .ops = &ops,
                               .client = call->client,
                               .name = call->name->str,
                               .deadline_ns = call->deadline_ns,
                               .bodies = call->client->scanner.bodies };
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

/* Returns TRUE if the written message is longer than `ask_bytes`, and is not known to fit into a
 * frame of the server. */
static gboolean
may_be_too_large (TpsClientCall *call)
{
  TpsClient *client = call->client;
  gsize n_bytes = get_frame_bytes (call);
  TpsPeerFacts facts;
  gboolean fits_frame;

  if (n_bytes <= client->ask_bytes)
    return FALSE;
  TPS_LOCK_SCOPE (&client->lock);
  fits_frame = client->link != NULL && get_facts (client->link, &facts) && fits (&facts, n_bytes);
  return !fits_frame;
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
  TpsChunkedOptions options = get_chunked_options (call);
  GError *error = NULL;

  options.max_frame_bytes = (gsize) facts->max_frame_bytes;
  if (tps_writer_message_end_transferred (call->writer, &error))
    tps_chunked_call_send (&options, call->writer, on_sent, call);
  else
    on_sent (call, NULL, error);
}

static void
on_negotiated (TpsClientCall *call, const TpsPeerFacts *facts, const GError *error)
{
  /* Some servers close the connection instead of replying to the request for their limits. */
  if (error != NULL
      && !(call->is_framable && g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST)))
    on_sent (call, NULL, g_error_copy (error));
  else if (error != NULL || (call->is_framable && fits (facts, get_frame_bytes (call))))
    submit (call);
  else
    send_in_chunks (call, facts);
}

static void
on_fetched (gpointer user_data, TpsMessage *answer, GError *error)
{
  TpsClientCall *call = user_data;

  set_outcome (call, answer, error);
  tps_client_call_finish (call);
}

/* Returns TRUE if the server keeps the reply for a transfer. The reply is then fetched, and the
 * call finishes again later. Thread: the loop's. */
static gboolean
fetch_answer (TpsClientCall *call)
{
  g_autofree gchar *transfer = NULL;
  TpsChunkedOptions options;

  if (call->reply == NULL || call->is_fetched)
    return FALSE;
  transfer = tps_reply_dup_transfer (call->reply);
  if (transfer == NULL)
    return FALSE;
  call->is_fetched = TRUE;
  options = get_chunked_options (call);
  tps_chunked_call_fetch (&options, transfer, on_fetched, call);
  return TRUE;
}

/* ---- client --------------------------------------------------------------------------------- */

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
tps_client_new (const TpsClientOptions *given, GError **error)
{
  TpsClientOptions copy, *options = &copy;
  g_auto (TpsAddress) address = { 0 };
  TpsLoop *loop;
  TpsClient *client;

  TPS_SIZED_COPY (copy, given);
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
  client->wake_pool = wake_pool;
  client->address = address;
  address = (TpsAddress) { 0 };
  client->scanner.max_message_bytes = options->max_message_bytes > 0 ? options->max_message_bytes
                                                                     : DEFAULT_MAX_MESSAGE_BYTES;
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

void
tps_client_set_bodies (TpsClient *client, TpsBufferPool *bodies)
{
  client->scanner.bodies = tps_buffer_pool_ref (bodies);
}

gboolean
tps_client_set_traceparent (TpsClient *client, const gchar *traceparent, GError **error)
{
  TpsTraceContext context = { { 0 } };

  if (traceparent != NULL && !tps_trace_context_parse (traceparent, &context))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "\"%.80s\" is not a traceparent of W3C Trace Context", traceparent);
  TPS_LOCK_SCOPE (&client->lock);
  client->context = context;
  atomic_store_explicit (&client->is_traced, traceparent != NULL, memory_order_relaxed);
  return TRUE;
}

static void
clear_timer (gpointer user_data)
{
  TpsClient *client = user_data;

  tps_mutex_lock (&client->lock);
  client->wake_ns = TPS_CLIENT_NEVER;
  tps_mutex_unlock (&client->lock);
  set_timer (client);
}

void
tps_client_cancel (TpsClient *client)
{
  g_autoptr (GPtrArray) delays = g_ptr_array_new ();
  g_autoptr (GError) error = cancelled_error (client);
  TpsClientCall *call = NULL;

  enter (client);
  tps_mutex_lock (&client->lock);
  client->cancelled = TRUE;
  /* A delay belongs to no link, so tps_client_lose_link() does not end it. */
  while ((call = tps_call_table_get_next (&client->calls, call)) != NULL)
    if (call->delayed != NULL)
      g_ptr_array_add (delays, call);
  for (guint i = 0; i < delays->len; i++)
    tps_call_table_remove (&client->calls, delays->pdata[i]);
  tps_mutex_unlock (&client->lock);
  for (guint i = 0; i < delays->len; i++)
    tps_client_call_fail (delays->pdata[i], g_error_copy (error));
  tps_client_lose_link (client, NULL, error);
  leave (client);
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
  tps_loop_post (client->loop, clear_timer, client);
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

  take_lease (call);
  tps_client_call_write (call, write, write_data);
  if (!tps_writer_message_end (call->writer, NULL) || may_be_too_large (call))
    {
      tps_client_call_unwrite (call);
      call->is_large = TRUE;
      tps_client_call_write (call, write, write_data);
      call->is_framable = tps_writer_message_end (call->writer, NULL);
      if (!call->is_framable && !tps_writer_message_end_transferred (call->writer, &error))
        return error;
    }
  tps_client_call_written (call);
  return NULL;
}

static void
call_start (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data)
{
  GError *error = register_call (call);

  while (error == NULL)
    {
      error = call_write (call, write, write_data);
      if (error == NULL && call->is_large)
        {
          await_facts (call);
          return;
        }
      /* If the link for which the call was written is down, the call must be written again. */
      if (error == NULL && submit (call))
        return;
      if (error == NULL)
        tps_client_call_unwrite (call);
    }
  refuse_call (call, error);
}

void
tps_client_call (TpsClient *client, const gchar *service, const gchar *method,
                 TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                 TpsClientDone done, gpointer user_data)
{
  TpsClientCall *call = tps_client_call_new (client, deadline_ns, user_data);

  tps_client_call_set_name (call, service, method);
  call->done = done;
  call->goes_on = fetch_answer;
  enter (client);
  call_start (call, write, write_data);
  leave (client);
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
  TpsClientCall *call = tps_client_call_new (client, until_ns, user_data);

  call->delayed = func;
  start_own_call (call, NULL, NULL);
}
