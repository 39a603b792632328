/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An HTTP server beside the Thrift server of a TpsPlugin: health, metrics, and reports in JSON
 * (API.md). It has one thread with its own main context; requests run neither on event loops nor on
 * workers. It must be freed before its server and plugin. */

#pragma once

#include "plugin/access/access.h"
#include "plugin/plugin.h"
#include "runtime/base/json_writer.h"

G_BEGIN_DECLS

/* ---- endpoints ------------------------------------------------------------------------------- */

typedef struct TpsHttpRequest TpsHttpRequest;

/* A path of the HTTP server, and the function that handles its requests, GET and HEAD, on the HTTP
 * thread. A handler must respond before it returns, within a few milliseconds: it delays other HTTP
 * requests, but no calls of Thrift clients. */
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

/* Begin a response that is an object, to which the caller adds members, and respond with it, as
 * tps_http_request_reply(). `json` is empty afterwards. */
void tps_http_json_begin (TpsJsonWriter *json);
void tps_http_request_reply_json (TpsHttpRequest *request, guint status, TpsJsonWriter *json);

/* As tps_http_request_reply(), with status 200 and `bytes`, which must outlive the server. `etag`
 * is their entity tag, in quotes; if the client has the bytes already, the response is 304. */
void tps_http_request_reply_file (TpsHttpRequest *request, const gchar *content_type,
                                  const gchar *etag, gconstpointer bytes, gsize n_bytes);

/* As tps_http_request_reply(), with the JSON object {"error": {"status": ..., "message": ...}}. */
void tps_http_request_fail (TpsHttpRequest *request, guint status, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* ---- the server ------------------------------------------------------------------------------ */

typedef struct TpsHttp TpsHttp;

/* A number that is 0 has its default, which the comment gives. The options are copied; the objects
 * and strings to which they point are borrowed and must outlive the HTTP server. */
typedef struct
{
  TpsPlugin *plugin;
  TpsServer *server; /* NULL = the plugin has no TpsServer */
  TpsTracer *tracer; /* records the slowest calls; NULL = none */
  /* Names of this host that a Host header may have, in addition to IP addresses and localhost;
   * ended by NULL. NULL = none. */
  const gchar *const *names;
  TpsAccess *access;      /* rules and tokens; a path is the method "Http:PATH"; NULL = none */
  gboolean serves_others; /* also serves peers on other machines, if the rules allow */
  guint max_connections;  /* 64 */
  guint max_streams;      /* 16; event streams among these connections */
  guint request_ms;       /* 10000; timeout for receiving a request */
  guint answer_ms;        /* 30000; timeout for sending a response */
  guint sample_ms;        /* 1000; interval between events of /events */
  guint stuck_ms;         /* 10000; time after which /healthz reports a thread as stuck */
} TpsHttpOptions;

/* Creates a server, which the caller owns. It serves no requests before tps_http_start(). */
TpsHttp *tps_http_new (const TpsHttpOptions *options);

/* Ends all requests, stops the thread, and frees the server, which may be NULL. Waits for up to
 * two seconds for connections to end. */
void tps_http_free (TpsHttp *http);

/* Adds a path. Copies `endpoint`; its strings are borrowed. Replaces an endpoint that has the same
 * path and method, even one of the server itself. Must be called before tps_http_start(). */
void tps_http_add_endpoint (TpsHttp *http, const TpsHttpEndpoint *endpoint);

/* Listens on a further address: `text` is HOST:PORT; if the port is 0, the kernel chooses one. Must
 * be called before tps_http_start(). Errors: INVALID_ARGUMENT (not a TCP address), and those of
 * tps_address_listen(). */
gboolean tps_http_listen (TpsHttp *http, const gchar *text, GError **error);

/* Returns the addresses, such as "http://127.0.0.1:8080", in the order of the calls of
 * tps_http_listen(); ended by NULL. Borrowed until the next such call. */
const gchar *const *tps_http_get_addresses (TpsHttp *http);

/* Starts the thread. Must be called at most once. Errors: RESOURCE_EXHAUSTED (no thread),
 * INVALID_ARGUMENT (an endpoint without a right). */
gboolean tps_http_start (TpsHttp *http, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsHttp, tps_http_free)

G_END_DECLS
