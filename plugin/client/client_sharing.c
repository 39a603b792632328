/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Asks the server for what the pool of a link wants, and tells the pool what became of it. */

#include "plugin/client/client_private.h"
#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"

/* A peer that closes the connection when it is asked for its offer, twice running, is asked no more: some servers do so with
 * a service that they do not have. */
#define MAX_OFFERS_LOST 2

/* One request. */
typedef struct
{
  TpsClient *client;
  TpsSegmentPool *pool;
  guint64 link_number;
  TpsSegmentKind kind; /* of what is to be opened */
} Asking;

static Asking *
asking_new (TpsClient *client, TpsSegmentPool *pool, guint64 link_number)
{
  Asking *asking = g_new (Asking, 1);

  *asking = (Asking) { client, tps_segment_pool_ref (pool), link_number, TPS_SEGMENT_MEMFD };
  return asking;
}

static void
asking_free (Asking *asking)
{
  tps_segment_pool_unref (asking->pool);
  g_free (asking);
}

/* ---- the offer ------------------------------------------------------------------------------ */

/* Answered: not lost. */
static void
set_offer_out (const Asking *asking, gboolean offer_out)
{
  TpsClient *client = asking->client;

  tps_mutex_lock (&client->lock);
  if (client->link != NULL && client->link->number == asking->link_number)
    client->link->offer_out = offer_out;
  if (!offer_out)
    client->n_offers_lost = 0;
  tps_mutex_unlock (&client->lock);
}

/* A peer that does not know the question, or answers nonsense, offers nothing. */
static void
on_described (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Asking *asking = user_data;
  TpsPeerFacts facts = { 0 };

  if (!g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    set_offer_out (asking, FALSE);
  if (error == NULL && tps_peer_facts_read (result, type, &facts, NULL))
    tps_client_keep_facts (asking->client, asking->link_number, &facts);
  tps_segment_pool_offered (asking->pool, (gsize) facts.max_shared_bytes, facts.shares_device);
  asking_free (asking);
}

static void
ask_offer (TpsClient *client, TpsSegmentPool *pool, guint64 link_number)
{
  TpsPeerFacts facts;
  Asking *asking;

  if (tps_client_get_facts (client, link_number, &facts))
    {
      tps_segment_pool_offered (pool, (gsize) facts.max_shared_bytes, facts.shares_device);
      return;
    }
  asking = asking_new (client, pool, link_number);
  set_offer_out (asking, TRUE);
  tps_client_call_bound (client, pool, &tps_describe_rpc, NULL, on_described, asking);
}

/* ---- segments ------------------------------------------------------------------------------- */

/* Nothing of the kind is opened any more, and no call fails of it: nobody else would hear why tensors take the longer way. Once
 * a client, as each connection to such a peer ends there. */
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
    g_warning ("memory cannot be shared with %s, large tensors travel inline: %s", client->where,
               why->message);
}

/* FALSE: it is of no use, for the reason that stands in `error`. */
static gboolean
take_opened (Asking *asking, TpsReader *result, TpsWireType type, GError **error)
{
  TpsSegmentInfo info = { 0 };

  if (!tps_rpc_read_result (&tps_open_segment_rpc, result, type, &info, error))
    {
      tps_segment_pool_open_failed (asking->pool, FALSE);
      return FALSE;
    }
  if (asking->kind == TPS_SEGMENT_MEMFD)
    return tps_segment_pool_opened (asking->pool, info.id, info.n_bytes, error);
  if (info.has_handle)
    return tps_segment_pool_opened_exported (asking->pool, info.id, info.n_bytes, info.handle,
                                             error);
  tps_segment_pool_open_failed (asking->pool, FALSE);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                       "the server opened memory of its device and sent no handle of it");
  return FALSE;
}

static void
on_opened (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Asking *asking = user_data;
  gboolean later = g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED);
  g_autoptr (GError) unusable = NULL;

  if (error != NULL)
    tps_segment_pool_open_failed (asking->pool, later);
  else
    take_opened (asking, result, type, &unusable);
  if (unusable != NULL || (error != NULL && !later))
    warn (asking->client, unusable != NULL ? unusable : error);
  asking_free (asking);
}

static void
on_released (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Asking *asking = user_data;

  tps_segment_pool_released (asking->pool);
  asking_free (asking);
}

static void
on_segments_closed (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Asking *asking = user_data;

  tps_segment_pool_closed (asking->pool);
  asking_free (asking);
}

static void
ask_open (TpsClient *client, TpsSegmentPool *pool, guint64 link_number,
          const TpsSegmentRequest *request)
{
  TpsOpenSegmentArguments arguments = { request->kind, request->use, (gint64) request->n_bytes };
  Asking *asking = asking_new (client, pool, link_number);

  asking->kind = request->kind;
  tps_client_call_bound (client, pool, &tps_open_segment_rpc, &arguments, on_opened, asking);
}

void
tps_client_share_memory (TpsClient *client, TpsSegmentPool *pool, guint64 link_number)
{
  g_auto (TpsSegmentRequest) request = { 0 };

  while (tps_segment_pool_next (pool, &request))
    {
      if (request.ask == TPS_SEGMENT_ASK_OFFER)
        ask_offer (client, pool, link_number);
      else if (request.ask == TPS_SEGMENT_ASK_OPEN)
        ask_open (client, pool, link_number, &request);
      else if (request.ask == TPS_SEGMENT_ASK_RELEASE)
        tps_client_call_bound (client, pool, &tps_release_segments_rpc, &request.ids, on_released,
                               asking_new (client, pool, link_number));
      else
        tps_client_call_bound (client, pool, &tps_close_segments_rpc, &request.ids,
                               on_segments_closed, asking_new (client, pool, link_number));
      tps_segment_request_clear (&request);
    }
}

/* ---- the pool ------------------------------------------------------------------------------- */

/* Posted while the pool is not shut down, so the link is there. */
static void
share_memory (gpointer user_data)
{
  TpsClientLink *link = user_data;

  tps_client_share_memory (link->client, link->pool, link->number);
}

/* Whoever lets go of the last buffer of an answer comes by here, perhaps with locks held. */
static void
on_wake (gpointer user_data)
{
  TpsClientLink *link = user_data;

  tps_loop_post (link->client->loop, share_memory, link);
}

TpsSegmentPool *
tps_client_make_pool (TpsClientLink *link)
{
  const TpsClient *client = link->client;
  TpsSegmentPoolOptions options = { .max_bytes = client->max_shared_bytes,
                                    .wake = on_wake,
                                    .user_data = link };

  if (client->max_shared_bytes == 0 || client->n_offers_lost >= MAX_OFFERS_LOST)
    return NULL;
  return tps_segment_pool_new (&options);
}

void
tps_client_end_pool (TpsClientLink *link)
{
  link->client->n_offers_lost += link->offer_out;
  tps_segment_pool_add_stats (link->pool, &link->client->past_stats);
  tps_segment_pool_shut_down (link->pool); /* no wake comes after this */
}

gboolean
tps_client_may_share_device (TpsClient *client, TpsDevice *device)
{
  gboolean may_share;

  tps_mutex_lock (&client->lock);
  if (client->link == NULL)
    may_share = client->max_shared_bytes > 0 && client->n_offers_lost < MAX_OFFERS_LOST
                && device->ops->open_exported != NULL;
  else
    may_share = client->link->pool != NULL
                && tps_segment_pool_may_take (client->link->pool, device);
  tps_mutex_unlock (&client->lock);
  return may_share;
}
