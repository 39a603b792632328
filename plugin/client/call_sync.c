/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/client.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

typedef struct
{
  TpsReadResult read;
  gpointer read_data;
  GError *error;

  TpsMutex lock; /* guards the next line */
  gboolean done;
  TpsCond finished;
} Wait;

/* The result must be read here, on the I/O thread, because it is borrowed for this callback
 * only. */
static void
on_done (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  Wait *wait = user_data;

  if (error != NULL)
    wait->error = g_error_copy (error);
  else if (wait->read != NULL)
    wait->read (result, type, wait->read_data, &wait->error);
  tps_mutex_lock (&wait->lock);
  wait->done = TRUE;
  tps_cond_signal (&wait->finished);
  tps_mutex_unlock (&wait->lock);
}

gboolean
tps_client_call_sync (TpsClient *client, const gchar *service, const gchar *method,
                      TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                      TpsReadResult read, gpointer read_data, GError **error)
{
  Wait wait = { .read = read, .read_data = read_data };

  tps_mutex_init (&wait.lock);
  tps_cond_init (&wait.finished);
  tps_client_call (client, service, method, write, write_data, deadline_ns, on_done, &wait);
  /* The wait needs no deadline: the call ends at its own deadline, and the arguments must stay
   * until then. */
  tps_mutex_lock (&wait.lock);
  while (!wait.done)
    tps_cond_wait (&wait.finished, &wait.lock);
  tps_mutex_unlock (&wait.lock);
  tps_cond_clear (&wait.finished);
  tps_mutex_clear (&wait.lock);
  if (wait.error == NULL)
    return TRUE;
  g_propagate_error (error, wait.error);
  return FALSE;
}
