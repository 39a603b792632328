/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Decisions about foreign requests, without a socket. Thread: any. */

#pragma once

#include <glib.h>
#include <sys/socket.h>

G_BEGIN_DECLS

/* Whether a Host header may name this server. A page of another site can make a browser send
 * requests here by letting its own name resolve to this host ("DNS rebinding"); the header then
 * holds that name. IP addresses, localhost and the names in `names` (NULL = none, ended by
 * NULL) are accepted, each with or without a port. */
gboolean tps_http_guard_accepts_host (const gchar *host, const gchar *const *names);

/* Whether `origin`, which browsers send with requests that change something, is the page of
 * `host`. */
gboolean tps_http_guard_is_same_origin (const gchar *origin, const gchar *host);

/* Whether a peer is on this machine: a Unix socket or a loopback address. */
gboolean tps_http_guard_is_local (const struct sockaddr_storage *peer);

/* The token of an Authorization header: "Bearer TOKEN". NULL = it has none. Borrowed. */
const gchar *tps_http_guard_find_token (const gchar *authorization);

G_END_DECLS
