/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts that every service with waiting calls needs around its state: a lock, a timer for the
 * earliest deadline, a count of pending work (begin() under the lock for each job of a step, end()
 * after it), and an orderly end: tps_shell_shut_down() under the lock, together with the last step
 * of the state machine, then tps_shell_drain() without the lock, then tps_shell_clear(). The worker
 * pool must live until the shell is shut down. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/base/worker_pool.h"

typedef struct
{
  TpsMutex lock; /* guards the service's state and everything below */

  /* Read-only for the service. */
  gboolean is_shut_down;

  /* Private. */
  TpsWorkerPool *workers;
  TpsJobFunc expire;
  gpointer user_data;
  TpsCond idle; /* n_pending has become 0 */
  /* Jobs of the service, and the timer from its start until `expire` has returned. */
  guint n_pending;
  guint64 timer_id; /* 0 = none is set */
  gint64 timer_ns;  /* of the timer */
} TpsShell;

/* Makes a shell without jobs, in the caller's storage. `workers` is borrowed. `expire (user_data)`
 * runs on the timer thread of `workers`, without the lock, at or soon after a deadline, or earlier.
 * It must read the clock, do a step and set the next deadline. It must be short. */
void tps_shell_init (TpsShell *shell, TpsWorkerPool *workers, TpsJobFunc expire,
                     gpointer user_data);
/* Releases the contents of the shell, which must be idle: see tps_shell_drain(). */
void tps_shell_clear (TpsShell *shell);

/* Counts one more pending job. The lock must be held. */
void tps_shell_begin (TpsShell *shell);

/* Counts the end of a job. The lock must not be held. The service may be freed as soon as the call
 * for the last job has returned. */
void tps_shell_end (TpsShell *shell);

/* Ensures that `expire` runs for `deadline_ns` (monotonic clock; G_MAXINT64 = no deadline). A timer
 * that is set for an earlier time stays. Does nothing after the shut-down. The lock must be
 * held. */
void tps_shell_set_deadline (TpsShell *shell, gint64 deadline_ns);

/* Shuts the shell down: no deadline calls `expire` any more, though a call may be in progress. The
 * service must refuse calls if `is_shut_down` is set. May be called again. The lock must be
 * held. */
void tps_shell_shut_down (TpsShell *shell);

/* Waits until no job is pending and `expire` does not run. Must be called after
 * tps_shell_shut_down(), without the lock, and not from a job. */
void tps_shell_drain (TpsShell *shell);
