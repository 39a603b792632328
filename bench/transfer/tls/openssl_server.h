/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* `openssl s_server` as a process. Inside bench/transfer/tls only. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

typedef struct
{
  gint pid;
  gint stdin_fd; /* held open: at the end of its input s_server would look for more without rest */
  gchar *address;
} TpsOpensslServer;

/* Starts it in `folder` with the certificate and `flags` ("-WWW"), and waits until it listens.
 * It writes the received bytes to `output`. It ends after `n_connections`; 0 = never. Errors:
 * TPS_ERROR_UNAVAILABLE. */
gboolean tps_openssl_server_start (TpsOpensslServer *server, TpsSupervisor *supervisor,
                                   const gchar *certificate, const gchar *flags,
                                   guint n_connections, const gchar *output, GError **error);

/* Waits until it has ended by itself. */
gboolean tps_openssl_server_wait (TpsOpensslServer *server, TpsSupervisor *supervisor,
                                  GError **error);

/* Ends it, if it has not been waited for. */
void tps_openssl_server_stop (TpsOpensslServer *server, TpsSupervisor *supervisor);

G_END_DECLS
