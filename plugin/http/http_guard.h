/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Checks of requests, which may come from hostile peers, or from pages of other sites. No function
 * uses a socket. Thread: any. */

#pragma once

#include <glib.h>
#include <sys/socket.h>

G_BEGIN_DECLS

/* libsoup gets only whole requests within these limits, because it allocates several objects for
 * each line of a head and for each piece of a body. */
#define TPS_HTTP_MAX_HEAD_BYTES 8192
#define TPS_HTTP_MAX_LINES 100 /* of a head */
#define TPS_HTTP_MAX_BODY_BYTES 4096
#define TPS_HTTP_MAX_REQUEST_BYTES (TPS_HTTP_MAX_HEAD_BYTES + TPS_HTTP_MAX_BODY_BYTES)

/* Examines `bytes`, the beginning of a connection, before a 0 byte. Returns 200 and sets
 * `n_request` if a whole request begins there; 0 if it is incomplete and below
 * TPS_HTTP_MAX_REQUEST_BYTES; otherwise the status of the refusal. A 0 byte, or %00 in the first
 * line, is refused. */
guint tps_http_guard_examine (const gchar *bytes, gsize n_bytes, gsize *n_request);

/* Returns TRUE if the Host header `host` may refer to this server: an IP address, localhost, or one
 * of `names` (ended by NULL; may be NULL), with or without a port. A page of another site, whose
 * name resolves to this host ("DNS rebinding"), sends its own name. */
gboolean tps_http_guard_accepts_host (const gchar *host, const gchar *const *names);

/* Returns TRUE if the peer's address is a Unix socket or a loopback address. */
gboolean tps_http_guard_is_local (const struct sockaddr_storage *peer);

/* Returns the token of the Authorization header "Bearer TOKEN", borrowed from `authorization` (may
 * be NULL). NULL = the header has no such token. */
const gchar *tps_http_guard_find_token (const gchar *authorization);

G_END_DECLS
