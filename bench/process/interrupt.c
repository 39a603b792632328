/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/interrupt.h"

#include <signal.h>

#include "runtime/base/error.h"

static volatile sig_atomic_t interrupted;

/* Runs in a signal handler: only async-signal-safe calls are allowed. */
static void
on_signal (int signal_number)
{
  struct sigaction plain = { .sa_handler = SIG_DFL };

  interrupted = 1;
  sigaction (signal_number, &plain, NULL);
}

void
tps_interrupt_install (void)
{
  struct sigaction flag = { .sa_handler = on_signal };
  struct sigaction ignore = { .sa_handler = SIG_IGN };

  sigaction (SIGINT, &flag, NULL);
  sigaction (SIGTERM, &flag, NULL);
  sigaction (SIGPIPE, &ignore, NULL);
}

gboolean
tps_interrupt_is_set (void)
{
  return interrupted != 0;
}

gboolean
tps_interrupt_check (GError **error)
{
  if (!interrupted)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "interrupted");
  return FALSE;
}
