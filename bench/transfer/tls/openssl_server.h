/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A process of `openssl s_server`. Only for bench/transfer/tls. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

/* The process. */
typedef struct
{
  gint pid;
  /* stays open: at the end of its input, s_server would poll the input continuously */
  gint stdin_fd;
  gchar *address;
} TpsOpensslServer;

/* Starts s_server in the folder of `certificate` with the options `flags` (such as "-WWW"), and
 * waits until it listens. s_server writes the received bytes to `output`, and exits after
 * `n_connections`; 0 = never. After an error, the caller must call tps_openssl_server_stop().
 * Blocks. Errors: UNAVAILABLE. */
gboolean tps_openssl_server_start (TpsOpensslServer *server, TpsSupervisor *supervisor,
                                   const gchar *certificate, const gchar *flags,
                                   guint n_connections, const gchar *output, GError **error);

/* Waits until s_server has ended by itself, and clears `server`. Blocks. Errors: those of
 * tps_supervisor_reap(). */
gboolean tps_openssl_server_wait (TpsOpensslServer *server, TpsSupervisor *supervisor,
                                  GError **error);

/* Kills s_server unless it has been waited for, and clears `server`. */
void tps_openssl_server_stop (TpsOpensslServer *server, TpsSupervisor *supervisor);

G_END_DECLS
