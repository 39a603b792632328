/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/peer.h"

#include "plugin/client/client_private.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"

/* One tps_client_ask_peer (). */
typedef struct
{
  TpsClient *client;
  guint64 n_links_made; /* counts up to the link that is asked, unless it is lost before */
  TpsPeerFacts facts;
  TpsPeerKnown known;
  gpointer user_data;
} Question;

gboolean
tps_peer_facts_read (TpsReader *result, TpsWireType type, TpsPeerFacts *facts, GError **error)
{
  g_auto (TpsNodeInfo) info = { 0 };
  g_autoptr (GError) why = NULL;

  if (!tps_rpc_read_result (&tps_describe_rpc, result, type, &info, &why))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "the answer to Node:describe cannot be understood: %s", why->message);
      return FALSE;
    }
  facts->max_frame_bytes = MAX (info.max_frame_bytes, 0);
  facts->max_shared_bytes = MAX (info.max_shared_bytes, 0);
  facts->shares_device = info.has_shared_device;
  return TRUE;
}

gboolean
tps_client_get_facts (TpsClient *client, guint64 n_links_made, TpsPeerFacts *facts)
{
  gboolean is_known;

  tps_mutex_lock (&client->lock);
  is_known = client->link != NULL && client->facts_link == n_links_made;
  if (is_known)
    *facts = client->facts;
  tps_mutex_unlock (&client->lock);
  return is_known;
}

void
tps_client_keep_facts (TpsClient *client, guint64 n_links_made, const TpsPeerFacts *facts)
{
  tps_mutex_lock (&client->lock);
  if (client->link != NULL && client->n_links_made == n_links_made)
    {
      client->facts = *facts;
      client->facts_link = n_links_made;
    }
  tps_mutex_unlock (&client->lock);
}

static void
finish (Question *question, const GError *error)
{
  question->known (question->user_data, error == NULL ? &question->facts : NULL, error);
  g_free (question);
}

static void
on_described (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Question *question = user_data;
  g_autoptr (GError) unclear = NULL;

  if (error == NULL && tps_peer_facts_read (result, type, &question->facts, &unclear))
    tps_client_keep_facts (question->client, question->n_links_made, &question->facts);
  else if (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    {
      tps_client_keep_facts (question->client, question->n_links_made, &question->facts);
      error = NULL; /* a peer without the service says nothing of itself */
    }
  finish (question, unclear != NULL ? unclear : error);
}

/* The answer is known: `known` is still not called from within tps_client_ask_peer (). */
static void
on_known (gpointer user_data, const GError *error)
{
  finish (user_data, error);
}

void
tps_client_ask_peer (TpsClient *client, gint64 deadline_ns, TpsPeerKnown known, gpointer user_data)
{
  Question *question = g_new0 (Question, 1);
  gboolean is_known;

  question->client = client;
  question->known = known;
  question->user_data = user_data;
  tps_mutex_lock (&client->lock);
  question->n_links_made = client->n_links_made + (client->link == NULL ? 1 : 0);
  tps_mutex_unlock (&client->lock);
  is_known = tps_client_get_facts (client, question->n_links_made, &question->facts);
  if (is_known)
    tps_client_delay (client, tps_clock_now_ns (), on_known, question);
  else
    tps_client_call_rpc (client, &tps_describe_rpc, NULL, deadline_ns, on_described, question);
}
