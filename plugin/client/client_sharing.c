/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client_sharing.h"

#include "plugin/client/channel.h"
#include "plugin/client/client_call.h"
#include "plugin/client/negotiation.h"
#include "plugin/wire/wire_memory.h"
#include "runtime/base/error.h"

/* ---- replies to requests of the pool -------------------------------------------------------- */

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

/* ---- requests ------------------------------------------------------------------------------- */

static void
ask_open (TpsClientLink *link, const TpsSegmentRequest *request)
{
  TpsOpenSegmentArguments arguments = { request->kind, request->use, (gint64) request->n_bytes };

  if (request->for_lookups)
    tps_channel_call_on (link, &tps_open_lookup_segment_rpc, &arguments.n_bytes, on_opened,
                         tps_client_link_ref (link));
  else
    tps_channel_call_on (link, &tps_open_segment_rpc, &arguments, on_opened,
                         tps_client_link_ref (link));
}

/* Sends the request that releases or closes segments. */
static void
end_segments (TpsClientLink *link, const TpsSegmentRequest *request)
{
  TpsSegmentIds ids = { request->ids->len, (gint64 *) (gpointer) request->ids->data };

  if (request->ask == TPS_SEGMENT_ASK_RELEASE)
    tps_channel_call_on (link, &tps_release_segments_rpc, &ids, on_released,
                         tps_client_link_ref (link));
  else
    tps_channel_call_on (link, &tps_close_segments_rpc, &ids, on_segments_closed,
                         tps_client_link_ref (link));
}

/* Sends all requests that the pool has now. Thread: any. */
static void
share_memory (TpsClientLink *link)
{
  g_auto (TpsSegmentRequest) request = { 0 };

  while (tps_segment_pool_next (link->pool, &request))
    {
      if (request.ask == TPS_SEGMENT_ASK_OFFER)
        tps_negotiation_offer (link);
      else if (request.ask == TPS_SEGMENT_ASK_OPEN)
        ask_open (link, &request);
      else
        end_segments (link, &request);
      tps_segment_request_clear (&request);
    }
}

/* Posted before the pool is shut down, and thus before link_tear_down(), so the link still
 * exists. */
static void
on_wake (gpointer user_data)
{
  share_memory (user_data);
}

/* Called by the pool when it has new requests, for example after the release of the last buffer of
 * a reply. Thread: any. */
void
tps_client_wake_pool (gpointer user_data)
{
  TpsClientLink *link = user_data;

  tps_loop_post (link->client->loop, on_wake, link);
}

/* ---- calls ---------------------------------------------------------------------------------- */

void
tps_client_call_take_lease (TpsClientCall *call)
{
  TpsClient *client = call->client;
  g_autoptr (TpsClientLink) link = NULL;

  if (client->max_shared_bytes == 0)
    return;
  tps_mutex_lock (&client->lock);
  if (!client->cancelled)
    link = tps_client_link_ref (tps_channel_get_link (client));
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

  tps_mutex_lock (&client->lock);
  if (client->link == NULL)
    may_share = client->max_shared_bytes > 0 && tps_negotiation_may_offer (client)
                && device->ops->open_exported != NULL;
  else
    may_share = client->link->pool != NULL
                && tps_segment_pool_may_take (client->link->pool, device);
  tps_mutex_unlock (&client->lock);
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
  tps_mutex_lock (&client->lock);
  *stats = client->past_stats;
  if (client->link != NULL && client->link->pool != NULL)
    tps_segment_pool_add_stats (client->link->pool, stats);
  tps_mutex_unlock (&client->lock);
}
