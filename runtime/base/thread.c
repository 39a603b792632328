/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/thread.h"

#include <signal.h>

#include "runtime/base/error.h"

#define MAX_NAME_BYTES 15 /* the limit of pthread_setname_np() */
/* The size of a stack is otherwise the limit of the main thread (ulimit -s), which may be small. */
#define MIN_STACK_BYTES ((gsize) 1 << 20)

gboolean
tps_thread_start (TpsThread *thread, const gchar *name, void *(*func) (void *), gpointer data,
                  GError **error)
{
  g_autofree gchar *short_name = g_strndup (name, MAX_NAME_BYTES);
  pthread_attr_t attributes;
  gsize n_stack_bytes;
  sigset_t all, before;
  gint rc;

  tps_sync_check (pthread_attr_init (&attributes));
  tps_sync_check (pthread_attr_getstacksize (&attributes, &n_stack_bytes));
  tps_sync_check (pthread_attr_setstacksize (&attributes, MAX (n_stack_bytes, MIN_STACK_BYTES)));
  sigfillset (&all);
  /* A new thread inherits the signal mask of its creator. */
  tps_sync_check (pthread_sigmask (SIG_SETMASK, &all, &before));
  rc = pthread_create (thread, &attributes, func, data);
  tps_sync_check (pthread_sigmask (SIG_SETMASK, &before, NULL));
  tps_sync_check (pthread_attr_destroy (&attributes));
  if (rc == 0)
    pthread_setname_np (*thread, short_name);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "cannot start thread %s: %s", name,
                 g_strerror (rc));
  return rc == 0;
}

gboolean
tps_thread_start_detached (const gchar *name, void *(*func) (void *), gpointer data, GError **error)
{
  TpsThread thread;

  if (!tps_thread_start (&thread, name, func, data, error))
    return FALSE;
  tps_sync_check (pthread_detach (thread));
  return TRUE;
}
