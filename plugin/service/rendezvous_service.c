/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/rendezvous_service.h"

#include "plugin/service/methods.h"
#include "plugin/wire/wire_rendezvous.h"
#include "runtime/base/error.h"
#include "runtime/server/shell.h"

struct TpsRendezvous
{
  TpsRendezvousStore *store;
  TpsShell shell; /* for the timer; its lock must be taken before the lock of the store */
};

/* ---- timer ---------------------------------------------------------------------------------- */

/* Sets the timer to the earliest deadline of a waiter. The lock of the shell must be held. */
static void
arm_timer (TpsRendezvous *rendezvous)
{
  tps_shell_set_deadline (&rendezvous->shell,
                          tps_rendezvous_store_get_next_deadline_ns (rendezvous->store));
}

static void
expire (gpointer data)
{
  TpsRendezvous *rendezvous = data;

  tps_rendezvous_store_expire (rendezvous->store, tps_clock_now_ns ());
  TPS_LOCK_SCOPE (&rendezvous->shell.lock);
  arm_timer (rendezvous);
}

TpsRendezvous *
tps_rendezvous_new (TpsWorkerPool *workers, const TpsBudgets *budgets)
{
  TpsRendezvous *rendezvous = g_new0 (TpsRendezvous, 1);

  rendezvous->store = tps_rendezvous_store_new (budgets);
  tps_shell_init (&rendezvous->shell, workers, expire, rendezvous);
  return rendezvous;
}

void
tps_rendezvous_free (TpsRendezvous *rendezvous)
{
  tps_rendezvous_store_shut_down (rendezvous->store);
  tps_mutex_lock (&rendezvous->shell.lock);
  tps_shell_shut_down (&rendezvous->shell);
  tps_mutex_unlock (&rendezvous->shell.lock);
  tps_shell_drain (&rendezvous->shell);
  tps_shell_clear (&rendezvous->shell);
  tps_rendezvous_store_free (rendezvous->store);
  g_free (rendezvous);
}

/* ---- methods -------------------------------------------------------------------------------- */

static void
handle_put (TpsCall *call, gpointer service)
{
  TpsRendezvous *rendezvous = service;
  g_auto (TpsRendezvousArguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    tps_rendezvous_store_put (rendezvous->store, arguments.key, arguments.value, &error);
  tps_call_reply_done (call, error);
}

static gpointer
ref_value (gpointer value)
{
  return g_bytes_ref (value);
}

static void
unref_value (gpointer value)
{
  g_bytes_unref (value);
}

static void
answer_get (gpointer data, GBytes *value, const GError *error)
{
  TpsCall *call = data;
  TpsLender lender = { value, ref_value, unref_value };

  if (value != NULL)
    tps_call_reply_value_of (call, &value, &lender);
  else
    tps_call_reply_error (call, error);
}

static gboolean
is_connected (gpointer call)
{
  return tps_call_is_connected (call);
}

static void
wait_for_key (TpsRendezvous *rendezvous, TpsCall *call, const TpsRendezvousArguments *arguments)
{
  TpsRendezvousWait wait = {
    .owner = tps_call_get_connection (call),
    .is_connected = is_connected,
    .deadline_ns = tps_rendezvous_deadline_ns (tps_clock_now_ns (), arguments->timeout_ms),
    .done = answer_get,
    .user_data = call,
  };

  tps_call_enter_phase (call, TPS_PHASE_WAIT);
  tps_rendezvous_store_get (rendezvous->store, arguments->key, &wait);
  TPS_LOCK_SCOPE (&rendezvous->shell.lock);
  arm_timer (rendezvous);
}

/* Returns TRUE and clears the error if the error is a missing key, for which the call may wait.
 * Otherwise, the error is the reason. */
static gboolean
may_wait_for_key (TpsCall *call, const TpsRendezvousArguments *arguments, GError **error)
{
  if (arguments->timeout_ms == 0 || !g_error_matches (*error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    return FALSE;
  g_clear_error (error);
  if (tps_call_may_wait (call))
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_UNAVAILABLE,
      "key %s does not exist, and this server cannot wait: it serves one connection at a time",
      arguments->key);
}

static void
handle_get (TpsCall *call, gpointer service)
{
  TpsRendezvous *rendezvous = service;
  g_auto (TpsRendezvousArguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) value = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    {
      value = tps_rendezvous_store_peek (rendezvous->store, arguments.key, &error);
      if (value == NULL && may_wait_for_key (call, &arguments, &error))
        {
          wait_for_key (rendezvous, call, &arguments);
          return;
        }
    }
  answer_get (call, value, error);
}

static void
handle_add (TpsCall *call, gpointer service)
{
  TpsRendezvous *rendezvous = service;
  g_auto (TpsRendezvousArguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;
  TpsRendezvousPush push;
  gint64 sum;

  if (!tps_call_read_arguments (call, &arguments, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  push = (TpsRendezvousPush) { arguments.push.client, arguments.push.sequence,
                               tps_call_get_tenant_name (call) };
  if (tps_rendezvous_store_add (rendezvous->store, arguments.key, arguments.amount, &push, &sum,
                                &error))
    tps_call_reply_value (call, &sum);
  else
    tps_call_reply_error (call, error);
}

static void
handle_remove (TpsCall *call, gpointer service)
{
  TpsRendezvous *rendezvous = service;
  g_auto (TpsRendezvousArguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    tps_rendezvous_store_remove (rendezvous->store, arguments.key, &error);
  tps_call_reply_done (call, error);
}

/* ---- table of methods ----------------------------------------------------------------------- */

static void
connection_closed (gpointer object, gconstpointer connection)
{
  TpsRendezvous *rendezvous = object;

  tps_rendezvous_store_drop_owner (rendezvous->store, connection);
}

static void
shut_down (gpointer object)
{
  TpsRendezvous *rendezvous = object;

  tps_rendezvous_store_shut_down (rendezvous->store);
}

static const TpsMethod methods[] = { TPS_RENDEZVOUS_METHODS (handle_), { 0 } };

TpsPushWindow *
tps_rendezvous_get_pushes (TpsRendezvous *rendezvous)
{
  return tps_rendezvous_store_get_pushes (rendezvous->store);
}

void
tps_rendezvous_get_size (TpsRendezvous *rendezvous, guint *n_keys, guint *n_waiters)
{
  tps_rendezvous_store_get_size (rendezvous->store, n_keys, n_waiters);
}

TpsService
tps_rendezvous_service (TpsRendezvous *rendezvous)
{
  return (TpsService) { .name = "Rendezvous",
                        .methods = methods,
                        .object = rendezvous,
                        .shut_down = shut_down,
                        .connection_closed = connection_closed };
}
