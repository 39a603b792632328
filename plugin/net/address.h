/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Where a socket listens or connects: "host:port", "[v6]:port", "unix:/path". */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gchar *path; /* Unix socket; NULL for TCP */
  gchar *host; /* "" = loopback */
  guint16 port;
} TpsAddress;

/* Errors: TPS_ERROR_INVALID_ARGUMENT that says what is wrong and what is expected (a Unix path over
 * 107 bytes too). */
gboolean tps_address_parse (const gchar *text, TpsAddress *address, GError **error);
void tps_address_clear (TpsAddress *address);
gchar *tps_address_to_string (const TpsAddress *address);

/* A listening, non-blocking socket, or -1. `bound` gets the address as clients should write it,
 * with the port that was picked where 0 was asked for. A stale Unix socket (nobody answers) is
 * replaced, one in use is an error; mode 0600. Errors: TPS_ERROR_UNAVAILABLE (in use),
 * TPS_ERROR_INVALID_ARGUMENT (cannot be resolved, no such folder, …). */
gint tps_address_listen (const TpsAddress *address, gchar **bound, GError **error);

/* Whether only this host reaches a socket that listens there: a Unix socket, or a name all of whose
 * addresses are loopback. Resolves names. FALSE, too, if a name cannot be resolved. */
gboolean tps_address_is_local (const TpsAddress *address);

/* Starts to connect; a non-blocking socket or -1. Not yet connected where `in_progress` is set:
 * wait for EPOLLOUT, then ask tps_socket_check(). TCP sockets get TCP_NODELAY. Numeric hosts and
 * "localhost" never block; other names are resolved in place, and where they have several addresses
 * each but the last is waited for up to a second. Errors: TPS_ERROR_CONNECTION_LOST,
 * TPS_ERROR_INVALID_ARGUMENT. */
gint tps_address_connect (const TpsAddress *address, gboolean *in_progress, GError **error);

/* What every connected socket of ours gets, accepted ones too: TCP_NODELAY, an end after three
 * minutes in which the peer's host is silent, within a host a congestion control that does not
 * pace, or larger buffers for a Unix socket. Never fails: without it the socket is slower. */
void tps_socket_tune (gint fd);

/* SO_ERROR as a GError (CONNECTION_LOST), TRUE when there is none. */
gboolean tps_socket_check (gint fd, const gchar *what, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAddress, tps_address_clear)

G_END_DECLS
