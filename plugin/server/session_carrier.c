/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/session_private.h"

#define SMALL_REPLY_BYTES ((gsize) 64 << 10) /* see has_room() */
/* The longest pause after one refusal. It is short, because other calls of the peer may have
 * separate limits. */
#define MAX_THROTTLE_MS 100
#define NS_PER_MS 1000000

static TpsSession *
get_session (gpointer carried)
{
  return ((const TpsSessionCall *) carried)->session;
}

/* ---- caller --------------------------------------------------------------------------------- */

static const gchar *
get_peer (gpointer carried)
{
  return get_session (carried)->peer;
}

/* Called only if there is no access control. The principal then does not change after the first
 * call, so no lock is necessary. */
static const TpsPrincipal *
get_principal (gpointer carried)
{
  return tps_identity_get_principal (&get_session (carried)->identity);
}

static const TpsGrant *
get_grant (gpointer carried)
{
  return ((const TpsSessionCall *) carried)->grant;
}

static gboolean
authenticate (gpointer carried, const gchar *token, GError **error)
{
  return tps_session_authenticate (get_session (carried), token, error);
}

static TpsTenant *
get_tenant (gpointer carried)
{
  return get_session (carried)->tenant;
}

static void
set_context (gpointer carried, GHashTable *context)
{
  tps_session_set_context (get_session (carried), context);
}

static TpsSegmentRegistry *
get_segments (gpointer carried, GError **error)
{
  const TpsSession *session = get_session (carried);

  if (session->segments == NULL)
    tps_sharing_offer_refuse (session->offer, error);
  return session->segments;
}

static gconstpointer
get_connection (gpointer carried)
{
  return get_session (carried);
}

/* ---- work ----------------------------------------------------------------------------------- */

static gboolean
may_wait (gpointer carried)
{
  return TRUE;
}

static gboolean
is_wanted (gpointer carried)
{
  return !atomic_load_explicit (&get_session (carried)->closed, memory_order_relaxed);
}

static void
run_on_worker (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel,
               gpointer user_data)
{
  tps_job_queue_submit (get_session (carried)->jobs[lane], func, cancel, user_data);
}

static gboolean
is_alone (G_GNUC_UNUSED gpointer carried)
{
  return tps_loop_is_undisturbed ();
}

/* ---- throttling ----------------------------------------------------------------------------- */

static void
set_throttled (TpsSession *session, gboolean throttled)
{
  tps_mutex_lock (&session->lock);
  session->throttled = throttled;
  tps_session_update_reading (session);
  tps_mutex_unlock (&session->lock);
}

static void
end_throttle (gpointer data)
{
  TpsSession *session = data;

  session->throttle_timer = 0;
  set_throttled (session, FALSE);
}

/* Stops reading until `until_ns`. Must be called on the loop's thread. A closed connection must
 * have no timer. */
static void
begin_throttle (TpsSession *session, gint64 until_ns)
{
  if (session->throttle_timer != 0 || atomic_load (&session->closed))
    return;
  session->throttle_timer = tps_loop_add_timer (session->io->loop, until_ns, end_throttle, session);
  set_throttled (session, TRUE);
}

typedef struct
{
  TpsSession *session; /* a reference */
  gint64 until_ns;
} Throttle;

static void
run_throttle (gpointer data)
{
  Throttle *throttle = data;

  begin_throttle (throttle->session, throttle->until_ns);
  tps_session_unref (throttle->session);
  g_free (throttle);
}

static void
post_throttle (TpsSession *session, gint64 until_ns)
{
  Throttle *throttle = g_new (Throttle, 1);

  *throttle = (Throttle) { tps_session_ref (session), until_ns };
  tps_loop_post (session->io->loop, run_throttle, throttle);
}

/* Pauses the connection after a refusal, to limit the rate of calls of a peer that ignores
 * refusals. Thread: any, because workers refuse calls with long arguments. A call of a closed
 * connection may outlive the server and its loops, so `io` is used only under the lock that
 * on_closed() takes. */
static void
throttle_session (gpointer carried, gint wait_ms)
{
  TpsSession *session = get_session (carried);
  gint64 until_ns = tps_clock_now_ns () + (gint64) MIN (wait_ms, MAX_THROTTLE_MS) * NS_PER_MS;
  gboolean is_open, is_here;

  tps_mutex_lock (&session->lock);
  is_open = !atomic_load (&session->closed);
  is_here = is_open && tps_loop_is_current (session->io->loop);
  if (is_open && !is_here)
    post_throttle (session, until_ns);
  tps_mutex_unlock (&session->lock);
  if (is_here)
    begin_throttle (session, until_ns);
}

/* Limits free logins to the same number as wrong tokens. */
static gboolean
may_log_in (gpointer carried)
{
  TpsSession *session = get_session (carried);

  if (session->n_free_logins >= TPS_ACCESS_MAX_FAILURES)
    return FALSE;
  session->n_free_logins++;
  return TRUE;
}

/* ---- memory of replies ---------------------------------------------------------------------- */

static TpsBudget *
get_reply_budget (gpointer carried)
{
  return get_session (carried)->core->replies;
}

static gsize
count_unread (TpsSession *session)
{
  gsize n_bytes = tps_connection_get_n_bytes_queued (session->connection);

  tps_mutex_lock (&session->lock);
  n_bytes += session->n_unsent;
  tps_mutex_unlock (&session->lock);
  return n_bytes;
}

/* Clients that do not read must not use up the budget of replies. If more than half of it is
 * charged, the unread replies of a connection may take at most an eighth of the free part. The last
 * eighth of the budget is reserved for small replies of connections without unread replies. */
static gboolean
has_room (gpointer carried, gsize n_bytes)
{
  TpsSession *session = get_session (carried);
  gsize n_free = tps_budget_get_free (session->core->replies);
  gsize n_max = tps_budget_get_max (session->core->replies);
  gsize n_unread;

  if (n_free >= n_max / 2)
    return TRUE;
  n_unread = count_unread (session);
  if (n_unread == 0)
    return n_bytes <= SMALL_REPLY_BYTES || n_free >= n_max / 8;
  return n_unread + n_bytes <= n_free / 8;
}

const TpsCarrierOps tps_session_carrier_ops = {
  .get_reply_budget = get_reply_budget,
  .has_room = has_room,
  .get_peer = get_peer,
  .get_principal = get_principal,
  .get_grant = get_grant,
  .authenticate = authenticate,
  .get_tenant = get_tenant,
  .throttle = throttle_session,
  .may_log_in = may_log_in,
  .set_context = set_context,
  .may_wait = may_wait,
  .is_wanted = is_wanted,
  .run_on_worker = run_on_worker,
  .is_alone = is_alone,
  .get_segments = get_segments,
  .get_connection = get_connection,
  .finish = tps_session_finish_call,
};
