/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One GET of a server's HTTP answers, whose body comes in pieces. On the thread of the default main
 * context. */

#pragma once

#include <libsoup/soup.h>

G_BEGIN_DECLS

typedef struct TpsRequest TpsRequest;

typedef struct
{
  /* The next bytes of the body of an answer with status 200. FALSE with an error ends the request.
   */
  gboolean (*take) (gpointer user_data, const gchar *bytes, gsize n_bytes, GError **error);
  /* Called once, as the last: the body has ended (NULL), or why there is none. The request is freed
   * when this has returned. Not called after tps_request_cancel(). */
  void (*end) (gpointer user_data, const GError *error);
} TpsRequestOps;

/* Begins. `token` is sent as a bearer token; NULL = none. `ops` and `user_data` are borrowed until
 * the request ends. Errors reported to `end`: CONNECTION_LOST, PERMISSION_DENIED (401, 403),
 * UNAVAILABLE (any other status), and those of `take`. */
TpsRequest *tps_request_begin (SoupSession *session, const gchar *url, const gchar *token,
                               const TpsRequestOps *ops, gpointer user_data);

/* Nothing is called any more. */
void tps_request_cancel (TpsRequest *request);

G_END_DECLS
