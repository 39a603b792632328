/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A path of the HTTP server and the function that answers it.
 *
 * A handler runs on the HTTP thread. It must answer before it returns, and should not take longer
 * than some milliseconds: other requests wait meanwhile, but no call of a Thrift client does.
 */

#pragma once

#include "plugin/access/right.h"
#include "runtime/base/json_writer.h"

G_BEGIN_DECLS

typedef struct TpsHttpRequest TpsHttpRequest;

typedef struct
{
  const gchar *path;    /* "/tables"; the whole path of a request */
  gboolean is_post;     /* POST; otherwise GET, and HEAD with it */
  TpsRight right;       /* that callers need: one of ADMIN, READ and OPEN */
  gboolean is_unlisted; /* not in the list of paths at "/" */
  void (*handle) (TpsHttpRequest *request, gpointer user_data);
  gpointer user_data; /* borrowed, outlives the server */
} TpsHttpEndpoint;

/* A parameter of the query; NULL = it is not there. Borrowed. */
const gchar *tps_http_request_get_parameter (TpsHttpRequest *request, const gchar *name);

/* A number of the query in [min, max], or `initial` where there is none. FALSE: the request was
 * answered with 400. */
gboolean tps_http_request_get_number (TpsHttpRequest *request, const gchar *name, guint64 min,
                                      guint64 max, guint64 initial, guint64 *number);

/* NULL = there is none. Borrowed. */
const gchar *tps_http_request_get_header (TpsHttpRequest *request, const gchar *name);

/* Of a POST: at most TPS_HTTP_MAX_BODY_BYTES of application/json, ended by a NUL. Borrowed. */
#define TPS_HTTP_MAX_BODY_BYTES 4096
const gchar *tps_http_request_get_body (TpsHttpRequest *request);

/* Answers, once. `body` is taken over. `content_type` is static. */
void tps_http_request_reply (TpsHttpRequest *request, guint status, const gchar *content_type,
                             GString *body);

/* The same with the text of `json`, which is empty afterwards. */
void tps_http_request_reply_json (TpsHttpRequest *request, guint status, TpsJsonWriter *json);

/* The same with bytes that live as long as the server, and their entity tag in quotes: a client
 * that has them is answered with 304. */
void tps_http_request_reply_file (TpsHttpRequest *request, const gchar *content_type,
                                  const gchar *etag, gconstpointer bytes, gsize n_bytes);

/* The same with {"error": ...}. */
void tps_http_request_fail (TpsHttpRequest *request, guint status, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

G_END_DECLS
