/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The sockets that systemd has passed to the program, according to the environment variables
 * LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES of sd_listen_fds(3). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_PASSED_SOCKETS_FIRST 3 /* the first descriptor */
#define TPS_PASSED_SOCKETS_MAX 1024

typedef struct
{
  guint n;     /* number of descriptors, which begin at TPS_PASSED_SOCKETS_FIRST */
  GStrv names; /* [n], the names of the socket units; NULL = there are no names */
} TpsPassedSockets;

/* Parses the values of the three variables, which may be NULL. `pid` is the id of this process. If
 * the variables are for a different process, there are no sockets. The caller must clear `sockets`.
 * Errors: INVALID_ARGUMENT, which names the variable. Thread: any. */
gboolean tps_passed_sockets_parse (const gchar *listen_pid, const gchar *listen_fds,
                                   const gchar *listen_names, gint64 pid, TpsPassedSockets *sockets,
                                   GError **error);
void tps_passed_sockets_clear (TpsPassedSockets *sockets);

/* Returns a description of socket `index` for errors, "socket 4 (thriftps.socket)". The caller owns
 * it. */
gchar *tps_passed_sockets_describe (const TpsPassedSockets *sockets, guint index);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsPassedSockets, tps_passed_sockets_clear)

G_END_DECLS
