/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A path of the HTTP server, and the function that handles its requests, GET and HEAD, on the HTTP
 * thread. A handler must respond before it returns, within a few milliseconds: it delays other HTTP
 * requests, but no calls of Thrift clients. */

#pragma once

#include <thriftps/access.h>
#include "runtime/base/json_writer.h"

G_BEGIN_DECLS

typedef struct TpsHttpRequest TpsHttpRequest;

typedef struct
{
  const gchar *path;    /* the whole path of a request: "/tables" */
  TpsRight right;       /* that callers must have: ADMIN, READ or OPEN */
  gboolean is_unlisted; /* not in the list of paths at "/" */
  void (*handle) (TpsHttpRequest *request, gpointer user_data);
  gpointer user_data; /* borrowed, must outlive the server */
} TpsHttpEndpoint;

/* Returns a parameter of the query, borrowed; NULL = the query does not have it. */
const gchar *tps_http_request_get_parameter (TpsHttpRequest *request, const gchar *name);

/* Sets `number` to a parameter of the query, or to `initial` if the query does not have it. If it
 * is not a number in [min, max], responds with 400 and returns FALSE. */
gboolean tps_http_request_get_number (TpsHttpRequest *request, const gchar *name, guint64 min,
                                      guint64 max, guint64 initial, guint64 *number);

/* Returns a header of the request, borrowed; NULL = the request does not have it. */
const gchar *tps_http_request_get_header (TpsHttpRequest *request, const gchar *name);

/* Responds to the request; must be called once. Takes ownership of `body`. `content_type` must be
 * static. If there is no memory for `body`, the response is 503 instead. */
void tps_http_request_reply (TpsHttpRequest *request, guint status, const gchar *content_type,
                             GString *body);

/* As tps_http_request_reply(), with the text of `json`, which is empty afterwards. */
void tps_http_request_reply_json (TpsHttpRequest *request, guint status, TpsJsonWriter *json);

/* As tps_http_request_reply(), with status 200 and `bytes`, which must outlive the server. `etag`
 * is their entity tag, in quotes; if the client has the bytes already, the response is 304. */
void tps_http_request_reply_file (TpsHttpRequest *request, const gchar *content_type,
                                  const gchar *etag, gconstpointer bytes, gsize n_bytes);

/* As tps_http_request_reply(), with the JSON object {"error": {"status": ..., "message": ...}}. */
void tps_http_request_fail (TpsHttpRequest *request, guint status, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

G_END_DECLS
