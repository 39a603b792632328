/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call_private.h"
#include "runtime/base/error.h"

/* The largest login that is not charged to a tenant: a token, and the headers of a message. A
 * larger call could carry many uncharged bytes. */
#define MAX_LOGIN_BYTES ((gsize) 4 * TPS_TOKEN_MAX_BYTES)

/* ---- identity ------------------------------------------------------------------------------- */

const gchar *
tps_call_get_peer (TpsCall *call)
{
  return call->ops->get_peer != NULL ? call->ops->get_peer (call->carried) : NULL;
}

const TpsPrincipal *
tps_call_get_principal (TpsCall *call)
{
  if (call->grant != NULL)
    return tps_grant_get_principal (call->grant);
  return call->ops->get_principal != NULL ? call->ops->get_principal (call->carried)
                                          : tps_principal_get_anonymous ();
}

const TpsGrant *
tps_call_get_grant (TpsCall *call)
{
  return call->grant;
}

gboolean
tps_call_authenticate (TpsCall *call, const gchar *token, GError **error)
{
  if (call->ops->authenticate != NULL)
    return call->ops->authenticate (call->carried, token, error);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "this server accepts no tokens: only a TpsServer does");
  return FALSE;
}

/* ---- connection ----------------------------------------------------------------------------- */

gboolean
tps_call_set_context (TpsCall *call, GHashTable *context, GError **error)
{
  if (call->ops->set_context == NULL)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                           "this server keeps no contexts: only a TpsServer does");
      return FALSE;
    }
  call->ops->set_context (call->carried, context);
  return TRUE;
}

TpsSegmentRegistry *
tps_call_get_segments (TpsCall *call, GError **error)
{
  if (call->ops->get_segments != NULL)
    return call->ops->get_segments (call->carried, error);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "this server offers no shared memory: only a TpsServer does");
  return NULL;
}

gconstpointer
tps_call_get_connection (TpsCall *call)
{
  return call->ops->get_connection != NULL ? call->ops->get_connection (call->carried) : NULL;
}

gboolean
tps_call_is_connected (TpsCall *call)
{
  return call->ops->is_wanted == NULL || call->ops->is_wanted (call->carried);
}

gboolean
tps_call_may_wait (TpsCall *call)
{
  return call->ops->may_wait (call->carried);
}

gboolean
tps_call_is_alone (TpsCall *call)
{
  return call->ops->is_alone != NULL && call->ops->is_alone (call->carried);
}

/* ---- tenant --------------------------------------------------------------------------------- */

static gsize
count_message (const TpsMessage *message)
{
  return message->head->len + message->n_bytes_refused + message->n_bytes_bodies;
}

void
tps_call_throttle (TpsCall *call, gint wait_ms)
{
  if (call->ops->throttle != NULL)
    call->ops->throttle (call->carried, wait_ms);
}

/* Limits the rate at which a peer can repeat a refused call. */
static void
throttle (TpsCall *call, const GError *refusal)
{
  tps_call_throttle (call, tps_error_get_retry_after_ms (refusal));
}

static gboolean
may_log_in (TpsCall *call)
{
  return call->ops->may_log_in != NULL && count_message (call->message) <= MAX_LOGIN_BYTES
         && call->ops->may_log_in (call->carried);
}

/* A message that came in a transfer is not charged, because the calls that carried its chunks have
 * been charged. */
gboolean
tps_call_admit (TpsCall *call, gboolean is_login, GError **error)
{
  call->tenant = call->ops->get_tenant != NULL ? call->ops->get_tenant (call->carried) : NULL;
  if (call->tenant == NULL || call->message->transferred || (is_login && may_log_in (call)))
    return TRUE;
  call->is_admitted = tps_tenant_begin_call (call->tenant, count_message (call->message),
                                             call->arrived_ns, error);
  if (!call->is_admitted)
    throttle (call, *error);
  return call->is_admitted;
}

void
tps_call_leave_tenant (TpsCall *call, TpsWriter *reply, gint64 now_ns)
{
  gsize n_bytes = 0;
  guint n_pieces;

  if (reply != NULL)
    tps_writer_get_pieces (reply, &n_pieces, &n_bytes);
  tps_tenant_end_call (call->tenant, n_bytes, now_ns);
}

TpsTenant *
tps_call_get_tenant (TpsCall *call)
{
  return call->tenant;
}

const gchar *
tps_call_get_tenant_name (TpsCall *call)
{
  return call->tenant != NULL ? tps_tenant_get_name (call->tenant) : NULL;
}

/* A call that has waited for a worker has begun later than it arrived, so its time of arrival is
 * not passed on. */
gboolean
tps_call_add_rows (TpsCall *call, guint64 n_rows, GError **error)
{
  gint64 begun_ns = call->work == NULL ? call->arrived_ns : 0;
  g_autoptr (GError) refusal = NULL;

  if (call->tenant == NULL || tps_tenant_add_rows (call->tenant, n_rows, begun_ns, &refusal))
    return TRUE;
  throttle (call, refusal);
  g_propagate_error (error, g_steal_pointer (&refusal));
  return FALSE;
}
