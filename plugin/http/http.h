/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An HTTP server beside the Thrift server of a TpsPlugin: health, metrics, and reports in JSON, for
 * monitors, programs and people. API.md has its answers.
 *
 *   TpsHttpOptions options = { .plugin = plugin, .server = server };
 *
 *   http = tps_http_new (&options);
 *   tps_http_add_endpoint (http, &endpoint);                 more paths
 *   tps_http_listen (http, "127.0.0.1:8080", &error) && tps_http_start (http, &error);
 *   ...
 *   tps_server_stop (server);                                /readyz reports it as draining
 *   tps_http_free (http);                                    before `server` and `plugin`
 *
 * It has one thread, with a main context of its own: neither loops nor workers carry its requests.
 */

#pragma once

#include "plugin/access/access.h"
#include "plugin/http/http_endpoint.h"
#include "plugin/plugin.h"

G_BEGIN_DECLS

typedef struct TpsHttp TpsHttp;

/* Zero = the default of a number. Copied; the objects that the pointers name are borrowed and must
 * outlive the server. */
typedef struct
{
  TpsPlugin *plugin;
  TpsServer *server; /* NULL: the plugin is served otherwise */
  TpsTracer *tracer; /* keeps the slowest calls; NULL = nothing does */
  /* Of this host, that Host may have besides its addresses; ended by NULL; NULL = none. */
  const gchar *const *names;
  TpsAccess *access;      /* rules and tokens; a path is the method "Http:PATH"; NULL = none */
  gboolean serves_others; /* peers on other machines too, as far as rules allow */
  guint max_connections;  /* 64 */
  guint max_streams;      /* 16; of these connections */
  guint request_ms;       /* 10000; for a request to come */
  guint answer_ms;        /* 30000; for an answer to be taken */
  guint sample_ms;        /* 1000; from one event of /events to the next */
  guint stuck_ms;         /* 10000; after which /healthz calls a thread stuck */
} TpsHttpOptions;

/* Creates a server, owned by the caller, which serves nothing before tps_http_start(). */
TpsHttp *tps_http_new (const TpsHttpOptions *options);

/* Ends all requests and the thread. NULL is fine. */
void tps_http_free (TpsHttp *http);

/* One more path; the entry is copied, its text is borrowed. A path of the server itself is
 * replaced. Before the start. */
void tps_http_add_endpoint (TpsHttp *http, const TpsHttpEndpoint *endpoint);

/* One more address: HOST:PORT, where 0 picks a port. Before the start. Errors: those of
 * tps_address_listen(). */
gboolean tps_http_listen (TpsHttp *http, const gchar *text, GError **error);

/* "http://127.0.0.1:8080", in the order of listen; ended by NULL, borrowed. */
const gchar *const *tps_http_get_addresses (TpsHttp *http);

/* Once. Errors: RESOURCE_EXHAUSTED (no thread), INVALID_ARGUMENT (an endpoint without a right). */
gboolean tps_http_start (TpsHttp *http, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsHttp, tps_http_free)

G_END_DECLS
