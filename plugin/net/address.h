/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Addresses of sockets that listen or connect: "host:port", "[v6]:port", "unix:/path". */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gchar *path; /* of a Unix socket; NULL for TCP */
  gchar *host; /* "" = loopback */
  guint16 port;
} TpsAddress;

/* Parses an address. Errors: TPS_ERROR_INVALID_ARGUMENT, with the fault and the expected form (also
 * for a Unix path of more than 107 bytes). */
gboolean tps_address_parse (const gchar *text, TpsAddress *address, GError **error);
void tps_address_clear (TpsAddress *address);
gchar *tps_address_to_string (const TpsAddress *address);

/* Returns a listening, non-blocking socket, or -1. `bound` becomes the address for clients; if the
 * port was 0, it contains the port that the kernel chose. A stale Unix socket (without a listener)
 * is replaced, and one in use is an error; the mode is 0600. Errors: TPS_ERROR_UNAVAILABLE (in
 * use), TPS_ERROR_INVALID_ARGUMENT (cannot be resolved, no such folder, …). */
gint tps_address_listen (const TpsAddress *address, gchar **bound, GError **error);

/* Returns whether a socket that listens on this address is reachable only from this host: it is a
 * Unix socket, or a name all of whose addresses are loopback. Resolves names. Returns FALSE if a
 * name cannot be resolved. */
gboolean tps_address_is_local (const TpsAddress *address);

/* Starts to connect, and returns a non-blocking socket or -1. If `in_progress` is set, the socket
 * is not connected yet: wait for EPOLLOUT and then call tps_socket_check(). TCP sockets get
 * TCP_NODELAY. Numeric hosts and "localhost" never block. Other names are resolved in place; if a
 * name has several addresses, the function waits for up to a second for each but the last. Errors:
 * TPS_ERROR_CONNECTION_LOST, TPS_ERROR_INVALID_ARGUMENT. */
gint tps_address_connect (const TpsAddress *address, gboolean *in_progress, GError **error);

/* Sets the options of a connected or accepted socket. On TCP: TCP_NODELAY, an end after three
 * minutes of silence of the peer's host, and within a host a congestion control without pacing. On
 * a Unix socket: larger buffers. It never fails, because all options are optional. */
void tps_socket_tune (gint fd);

/* Returns TRUE if the socket has no pending error; otherwise sets SO_ERROR as a GError
 * (CONNECTION_LOST). */
gboolean tps_socket_check (gint fd, const gchar *where, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAddress, tps_address_clear)

G_END_DECLS
