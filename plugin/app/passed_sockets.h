/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which sockets systemd has passed to the program: the environment variables LISTEN_PID, LISTEN_FDS
 * and LISTEN_FDNAMES of sd_listen_fds(3). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_PASSED_SOCKETS_FIRST 3 /* descriptor */
#define TPS_PASSED_SOCKETS_MAX 1024

typedef struct
{
  guint n;     /* descriptors TPS_PASSED_SOCKETS_FIRST and up */
  GStrv names; /* of the socket units, as many; NULL = they have none */
} TpsPassedSockets;

/* Texts are those of the environment and may be NULL; `pid` is this process. None for another
 * process are an empty list. Errors: INVALID_ARGUMENT, naming the variable. Thread: any. */
gboolean tps_passed_sockets_parse (const gchar *listen_pid, const gchar *listen_fds,
                                   const gchar *listen_names, gint64 pid, TpsPassedSockets *sockets,
                                   GError **error);
void tps_passed_sockets_clear (TpsPassedSockets *sockets);

/* For errors: "socket 4 (thriftps.socket)"; owned by the caller. */
gchar *tps_passed_sockets_describe (const TpsPassedSockets *sockets, guint index);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsPassedSockets, tps_passed_sockets_clear)

G_END_DECLS
