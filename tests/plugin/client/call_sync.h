/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A raw call (plugin/client/client.h) that waits for its reply. */

#pragma once

#include "plugin/client/client.h"
#include "runtime/base/outcome.h"

/* Reads the result of a call; `type` is its wire type, as for TpsClientDone. FALSE: the call fails
 * with the error. */
typedef gboolean (*TpsReadResult) (TpsReader *result, TpsWireType type, gpointer user_data,
                                   GError **error);

/* As tps_client_call(), but waits for the reply. `read` (may be NULL) is called with the result, on
 * the I/O thread, before this returns. */
inline gboolean
tps_client_call_sync (TpsClient *client, const gchar *service, const gchar *method,
                      TpsWriteArguments write, gconstpointer write_data, gint64 deadline_ns,
                      TpsReadResult read, gpointer read_data, GError **error)
{
  struct Wait
  {
    TpsReadResult read;
    gpointer read_data;
    TpsOutcome outcome;
  } wait = { read, read_data, {} };
  TpsClientDone done = [] (gpointer user_data, TpsReader *result, TpsWireType type,
                           const GError *failure) {
    Wait *self = static_cast<Wait *> (user_data);
    g_autoptr (GError) unclear = nullptr;

    if (failure == nullptr && self->read != nullptr)
      self->read (result, type, self->read_data, &unclear);
    tps_outcome_set (&self->outcome, failure != nullptr ? failure : unclear);
  };

  tps_outcome_init (&wait.outcome);
  tps_client_call (client, service, method, write, write_data, deadline_ns, done, &wait);
  return tps_outcome_wait (&wait.outcome, error);
}
