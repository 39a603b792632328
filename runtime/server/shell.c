/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/shell.h"

void
tps_shell_init (TpsShell *shell, TpsWorkerPool *workers, TpsJobFunc expire, gpointer user_data)
{
  *shell = (TpsShell) { .workers = workers, .expire = expire, .user_data = user_data };
  tps_mutex_init (&shell->lock);
  tps_cond_init (&shell->idle);
}

void
tps_shell_clear (TpsShell *shell)
{
  g_assert (shell->n_pending == 0);
  tps_cond_clear (&shell->idle);
  tps_mutex_clear (&shell->lock);
}

/* ---- pending work ---------------------------------------------------------------------------- */

void
tps_shell_begin (TpsShell *shell)
{
  shell->n_pending++;
}

static void
end_locked (TpsShell *shell)
{
  if (--shell->n_pending == 0)
    tps_cond_broadcast (&shell->idle);
}

void
tps_shell_end (TpsShell *shell)
{
  TPS_LOCK_SCOPE (&shell->lock);
  end_locked (shell);
}

/* ---- timer ----------------------------------------------------------------------------------- */

static void
on_timer (gpointer data)
{
  TpsShell *shell = data;
  gboolean is_wanted;

  tps_mutex_lock (&shell->lock);
  shell->timer_id = 0;
  is_wanted = !shell->is_shut_down;
  tps_mutex_unlock (&shell->lock);
  if (is_wanted)
    shell->expire (shell->user_data);
  tps_shell_end (shell);
}

/* Cancels the timer. The lock is held. Returns FALSE if on_timer() has already begun. on_timer()
 * then waits for the lock, and `expire` handles the current state. */
static gboolean
cancel_timer (TpsShell *shell)
{
  if (!tps_worker_pool_cancel_timer (shell->workers, shell->timer_id))
    return FALSE;
  shell->timer_id = 0;
  end_locked (shell);
  return TRUE;
}

void
tps_shell_set_deadline (TpsShell *shell, gint64 deadline_ns)
{
  if (shell->is_shut_down || deadline_ns == G_MAXINT64)
    return;
  if (shell->timer_id != 0 && (shell->timer_ns <= deadline_ns || !cancel_timer (shell)))
    return;
  tps_shell_begin (shell);
  shell->timer_ns = deadline_ns;
  shell->timer_id = tps_worker_pool_add_timer (shell->workers, deadline_ns, on_timer, shell);
}

/* ---- shutdown -------------------------------------------------------------------------------- */

void
tps_shell_shut_down (TpsShell *shell)
{
  if (!shell->is_shut_down && shell->timer_id != 0)
    cancel_timer (shell);
  shell->is_shut_down = TRUE;
}

void
tps_shell_drain (TpsShell *shell)
{
  TPS_LOCK_SCOPE (&shell->lock);
  while (shell->n_pending > 0)
    tps_cond_wait (&shell->idle, &shell->lock);
}
