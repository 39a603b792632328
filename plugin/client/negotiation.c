/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/negotiation.h"

#include "plugin/client/channel.h"
#include "plugin/client/client_call.h"
#include "plugin/client/deadlines.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"

#define MAX_REQUESTS_LOST 2
#define FIRST_LINKS_TO_SKIP 4u /* doubled after each further lost connection */
#define MAX_DOUBLINGS 4

/* ---- request -------------------------------------------------------------------------------- */

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
    {
      TpsClientCall *call = calls->pdata[i];

      call->negotiated (call, failure == NULL ? &facts : NULL, failure);
    }
}

/* Returns TRUE if the caller must send the request. Must be called with client->lock held. */
static gboolean
begin (TpsClientLink *link)
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
send_request (TpsClientLink *link)
{
  tps_channel_call_on (link, &tps_describe_rpc, NULL, on_described, tps_client_link_ref (link));
}

/* ---- use of the facts ----------------------------------------------------------------------- */

gboolean
tps_negotiation_get (const TpsClientLink *link, TpsPeerFacts *facts)
{
  *facts = link->negotiation.facts;
  return link->negotiation.state == TPS_NEGOTIATION_DONE;
}

gboolean
tps_negotiation_may_offer (const TpsClient *client)
{
  return client->n_links_to_skip == 0;
}

void
tps_negotiation_offer (TpsClientLink *link)
{
  gboolean must_ask, is_known;
  TpsPeerFacts facts;

  tps_mutex_lock (&link->client->lock);
  must_ask = begin (link);
  is_known = tps_negotiation_get (link, &facts);
  tps_mutex_unlock (&link->client->lock);
  if (must_ask)
    send_request (link);
  else if (is_known)
    tell_pool (link->pool, &facts, NULL);
}

/* Ends the wait of calls that began to wait when the facts were already known. */
static void
on_known (gpointer user_data)
{
  g_autoptr (TpsClientLink) link = user_data;
  g_autoptr (GPtrArray) calls = NULL;

  tps_mutex_lock (&link->client->lock);
  calls = take_waiting (link);
  tps_mutex_unlock (&link->client->lock);
  for (guint i = 0; i < calls->len; i++)
    {
      TpsClientCall *call = calls->pdata[i];

      call->negotiated (call, &link->negotiation.facts, NULL);
    }
}

void
tps_negotiation_await (TpsClientCall *call,
                       void (*done) (TpsClientCall *call, const TpsPeerFacts *facts,
                                     const GError *error))
{
  TpsClient *client = call->client;
  g_autoptr (TpsClientLink) link = NULL;
  gboolean must_ask = FALSE;
  gboolean wake = FALSE;
  GError *error;

  call->negotiated = done;
  tps_mutex_lock (&client->lock);
  error = tps_channel_enter_table (call, &wake);
  if (error == NULL)
    {
      link = tps_client_link_ref (tps_channel_get_link (client));
      must_ask = begin (link);
      if (link->negotiation.state == TPS_NEGOTIATION_DONE)
        tps_loop_post (client->loop, on_known, tps_client_link_ref (link));
      call->queue = &link->negotiation.waiting;
      g_queue_push_tail_link (call->queue, &call->node);
    }
  tps_mutex_unlock (&client->lock);
  if (wake)
    tps_loop_post (client->loop, tps_deadlines_set_timer, client);
  if (must_ask)
    send_request (link);
  if (error != NULL)
    tps_channel_refuse (call, error);
}
