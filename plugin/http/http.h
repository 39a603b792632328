/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An HTTP server beside the Thrift server of a TpsPlugin: health, metrics, and reports in JSON
 * (API.md). It has one thread with its own main context; requests run neither on event loops nor on
 * workers. It must be freed before its server and plugin. */

#pragma once

#include "plugin/access/access.h"
#include "plugin/http/http_endpoint.h"
#include "plugin/plugin.h"

G_BEGIN_DECLS

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
