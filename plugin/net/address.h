/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Addresses on which sockets listen or to which they connect: "host:port", "[v6]:port",
 * "unix:/path". */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gchar *path; /* of a Unix socket; NULL for TCP */
  gchar *host; /* NULL or "" = loopback */
  guint16 port;
} TpsAddress;

/* Parses `text` into `address`, which the caller must clear. Errors: TPS_ERROR_INVALID_ARGUMENT,
 * with the fault and the expected form; a Unix path must not exceed 107 bytes. */
gboolean tps_address_parse (const gchar *text, TpsAddress *address, GError **error);

/* Frees the strings of the address, but not the structure. */
void tps_address_clear (TpsAddress *address);

/* Returns the address in the form that tps_address_parse() reads. The caller owns the result
 * (g_free()). */
gchar *tps_address_to_string (const TpsAddress *address);

/* Returns a listening, non-blocking socket, or -1. Sets `bound` (may be NULL) to the address for
 * clients, which the caller owns; if the port is 0, `bound` contains the port that the kernel
 * chose. A Unix socket gets the mode 0600 and replaces a stale socket, which has no listener.
 * Errors: TPS_ERROR_UNAVAILABLE (the address is in use, or no descriptor is free),
 * TPS_ERROR_INVALID_ARGUMENT (the host cannot be resolved, there is no such folder, …). */
gint tps_address_listen (const TpsAddress *address, gchar **bound, GError **error);

/* Returns TRUE if a socket that listens on this address is reachable only from this host: the
 * address is a Unix socket, or its host has only loopback addresses. Resolves names, which may
 * block. Returns FALSE if a name cannot be resolved. */
gboolean tps_address_is_local (const TpsAddress *address);

/* Starts to connect, and returns a non-blocking socket or -1. If `in_progress` is set, the socket
 * is not connected yet: wait for EPOLLOUT and then call tps_socket_check(). TCP sockets get
 * TCP_NODELAY. Numeric hosts and "localhost" never block. Other names are resolved by this
 * function, which may block; if a name has several addresses, the function also waits for up to a
 * second for a connection to each address but the last. Errors: TPS_ERROR_CONNECTION_LOST,
 * TPS_ERROR_INVALID_ARGUMENT. */
gint tps_address_connect (const TpsAddress *address, gboolean *in_progress, GError **error);

/* Sets the options of a connected or accepted socket. On TCP: TCP_NODELAY, a timeout of three
 * minutes if the peer's host does not answer, and a congestion control without pacing for
 * connections within a host. On a Unix socket: a send buffer of the tuned size. Failures are
 * ignored, because all options are optional. */
void tps_socket_tune (gint fd);

/* Returns TRUE if the socket has no pending error (SO_ERROR). Errors: CONNECTION_LOST, with the
 * pending error; its message begins with `where`. */
gboolean tps_socket_check (gint fd, const gchar *where, GError **error);

/* Prepares `fd`, a socket that another process opened and passed to this one (systemd's socket
 * activation), as tps_address_listen() does: non-blocking, close-on-exec, without descriptors from
 * peers. It must be a listening stream socket, TCP or Unix. `address`, owned by the caller, becomes
 * the address for clients ("unix:@NAME" for an abstract socket). The caller still owns `fd`.
 * Errors: INVALID_ARGUMENT. Thread: any. */
gboolean tps_passed_socket_prepare (gint fd, gchar **address, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAddress, tps_address_clear)

G_END_DECLS
