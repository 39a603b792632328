/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A GET request to the HTTP server, whose reply comes in pieces. Thread: that of the default main
 * context, for all functions and callbacks. */

#pragma once

#include <libsoup/soup.h>

G_BEGIN_DECLS

typedef struct TpsRequest TpsRequest;

typedef struct
{
  /* Called with the next bytes of the body of a reply with status 200; `bytes` are borrowed for the
   * call. FALSE: the request ends with the error. */
  gboolean (*take) (gpointer user_data, const gchar *bytes, gsize n_bytes, GError **error);
  /* Called once, after all calls of `take`. `error` is borrowed; NULL = the body is complete. The
   * request is freed when this has returned. Not called after tps_request_cancel(). */
  void (*end) (gpointer user_data, const GError *error);
} TpsRequestOps;

/* Begins a request. `token` is sent as a bearer token; NULL = none. `ops` and `user_data` are
 * borrowed until the request ends, which frees the result. Errors, reported to `end`:
 * CONNECTION_LOST; PERMISSION_DENIED (401, 403); UNAVAILABLE (any other status); those of
 * `take`. */
TpsRequest *tps_request_begin (SoupSession *session, const gchar *url, const gchar *token,
                               const TpsRequestOps *ops, gpointer user_data);

/* Cancels the request, which frees itself later. No callback is called any more. */
void tps_request_cancel (TpsRequest *request);

G_END_DECLS
