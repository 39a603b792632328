/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The identity of a caller comes from three sources, in this order: the user of a Unix socket, the
 * certificate of an encrypted connection, a token. A token comes in the header of a message or in
 * Session.authenticate. If the principal changes, later calls have the tenant of the new principal;
 * in-flight calls keep their tenant.
 */

#include <string.h>
#include <sys/socket.h>

#include "plugin/server/session_private.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

static TpsTraceEvent tokens_refused = TPS_TRACE_EVENT ("tokens_refused", TPS_TRACE_WARNING);

#define BEARER "Bearer "

/* ---- identity ------------------------------------------------------------------------------- */

void
tps_session_show_user (TpsSession *session, gint fd)
{
  struct ucred peer;
  socklen_t n_bytes = sizeof peer;
  gchar name[32];

  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) < 0 || peer.uid == (uid_t) -1)
    return; /* not a Unix socket */
  session->is_unix = TRUE;
  g_snprintf (name, sizeof name, "uid:%u", (guint) peer.uid);
  tps_identity_show (&session->identity, TPS_PRINCIPAL_UID, name);
}

/* Sets the principal from the certificate. Called at the first call, when the handshake has
 * ended. */
static void
show_certificate (TpsSession *session)
{
  const gchar *name = NULL;

  if (session->is_identified)
    return;
  session->is_identified = TRUE;
  name = tps_connection_get_peer_name (session->connection);
  if (name != NULL)
    tps_identity_show (&session->identity, TPS_PRINCIPAL_CERTIFICATE, name);
}

/* Stops reading after too many wrong tokens. The connection sends the replies to earlier calls, and
 * then closes. */
static void
refuse_more (TpsSession *session)
{
  if (session->refused)
    return;
  session->refused = TRUE;
  session->ended = TRUE;
  tps_session_update_reading (session);
  tps_trace (&tokens_refused, tps_field_text ("peer", session->peer),
             tps_field_uint ("failures", session->identity.n_failures));
}

/* Authenticates the caller, and refuses more calls after too many failures. The lock must be
 * held. */
static gboolean
take_token (TpsSession *session, const gchar *token, GError **error)
{
  gboolean ok = tps_identity_authenticate (&session->identity, token, error);

  if (session->identity.n_failures >= TPS_ACCESS_MAX_FAILURES)
    refuse_more (session);
  return ok;
}

gboolean
tps_session_authenticate (TpsSession *session, const gchar *token, GError **error)
{
  gboolean ok;

  tps_connection_forget_received (session->connection);
  tps_mutex_lock (&session->lock);
  ok = take_token (session, token, error);
  tps_mutex_unlock (&session->lock);
  return ok;
}

/* A token in the header of a message has the same effect as an earlier call of
 * Session.authenticate. Peers may send the same token with each message. The lock must be held. */
static gboolean
take_header (TpsSession *session, const TpsMessage *message, GError **error)
{
  const gchar *header = tps_message_get_header (message, "authorization");
  const gchar *token;

  if (G_LIKELY (header == NULL))
    return TRUE;
  tps_connection_forget_received (session->connection);
  if (session->core->access == NULL)
    return TRUE;
  if (g_ascii_strncasecmp (header, BEARER, strlen (BEARER)) != 0)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED,
                           "the header authorization is not \"Bearer TOKEN\"");
      return FALSE;
    }
  token = header + strlen (BEARER);
  return tps_identity_has_token (&session->identity, token) || take_token (session, token, error);
}

static void
join_tenant (TpsSession *session)
{
  const TpsPrincipal *principal = tps_identity_get_principal (&session->identity);

  if (G_LIKELY (principal == session->tenant_of))
    return;
  g_clear_pointer (&session->tenant_of, tps_principal_unref);
  session->tenant_of = tps_principal_ref (principal);
  session->tenant = tps_quotas_find (session->core->quotas, tps_principal_get_tenant (principal));
  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    tps_job_queue_set_group (session->jobs[lane], tps_tenant_get_job_group (session->tenant));
}

TpsGrant *
tps_session_identify (TpsSession *session, const TpsMessage *message, GError **error)
{
  TpsGrant *grant;

  show_certificate (session);
  take_header (session, message, error);
  grant = tps_identity_get_grant (&session->identity);
  session->has_rights = tps_grant_has_rights (grant);
  if (session->core->quotas != NULL)
    join_tenant (session); /* the tenant of the grant's principal */
  return grant;
}

/* A token in the header of the message that begins is not known yet. The message must therefore fit
 * into the budget of peers without rights, unless an earlier message had the token. */
TpsBufferPool *
tps_session_choose_bodies (gpointer data)
{
  TpsSession *session = data;

  if (!session->has_rights)
    {
      g_autoptr (TpsGrant) grant = NULL;

      tps_mutex_lock (&session->lock);
      show_certificate (session);
      grant = tps_identity_get_grant (&session->identity);
      tps_mutex_unlock (&session->lock);
      session->has_rights = tps_grant_has_rights (grant);
    }
  return session->has_rights ? session->core->bodies : session->core->strangers_bodies;
}

/* ---- context -------------------------------------------------------------------------------- */

void
tps_session_set_context (TpsSession *session, GHashTable *context)
{
  tps_mutex_lock (&session->lock);
  g_clear_pointer (&session->context, g_hash_table_unref);
  if (context != NULL)
    session->context = g_hash_table_ref (context);
  atomic_store_explicit (&session->has_context, context != NULL, memory_order_relaxed);
  tps_mutex_unlock (&session->lock);
}

GHashTable *
tps_session_dup_context (TpsSession *session)
{
  GHashTable *context;

  tps_mutex_lock (&session->lock);
  context = session->context != NULL ? g_hash_table_ref (session->context) : NULL;
  tps_mutex_unlock (&session->lock);
  return context;
}
