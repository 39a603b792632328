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

/* Returns the form that tps_address_parse() reads. The caller owns the result (g_free()). */
gchar *tps_address_to_string (const TpsAddress *address);

/* Returns a listening, non-blocking socket, or -1. `bound` (may be NULL) becomes the address for
 * clients, owned by the caller, with the port that was chosen for 0. A Unix socket gets the mode
 * 0600 and replaces a stale one. Errors: UNAVAILABLE (in use, or no descriptor), INVALID_ARGUMENT
 * (cannot be resolved, no such folder, …). */
gint tps_address_listen (const TpsAddress *address, gchar **bound, GError **error);

/* Returns TRUE if a socket that listens on this address is reachable only from this host: the
 * address is a Unix socket, or its host has only loopback addresses. Resolves names, which may
 * block. Returns FALSE if a name cannot be resolved. */
gboolean tps_address_is_local (const TpsAddress *address);

/* Starts to connect, and returns a non-blocking socket or -1. If `in_progress` is set, wait for
 * EPOLLOUT and then call tps_socket_check(). Numeric hosts and "localhost" never block; other names
 * are resolved here, which may block, and for several addresses up to a second each but for the
 * last. Errors: CONNECTION_LOST, INVALID_ARGUMENT. */
gint tps_address_connect (const TpsAddress *address, gboolean *in_progress, GError **error);

/* Sets optional options of a connected socket. TCP: TCP_NODELAY, a timeout of three minutes if the
 * peer's host does not answer, congestion control without pacing within a host. Unix: a send buffer
 * of the tuned size. */
void tps_socket_tune (gint fd);

/* Returns TRUE if the socket has no pending error (SO_ERROR). Errors: CONNECTION_LOST, with the
 * pending error; its message begins with `where`. */
gboolean tps_socket_check (gint fd, const gchar *where, GError **error);

/* Prepares `fd`, a listening stream socket that another process passed (systemd), as
 * tps_address_listen(): non-blocking, close-on-exec, without descriptors from peers. `address`,
 * owned by the caller, becomes that for clients ("unix:@NAME" if abstract). Errors:
 * INVALID_ARGUMENT. Thread: any. */
gboolean tps_passed_socket_prepare (gint fd, gchar **address, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAddress, tps_address_clear)

G_END_DECLS
