/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One request, from libsoup's message to the handler of its endpoint. The checks have this order:
 * Host, right, path, method. Thread: the HTTP thread. */

#pragma once

#include "plugin/http/http.h"
#include "plugin/http/http_connections.h"

/* The rules for all requests. All members are borrowed. */
typedef struct
{
  GArray *endpoints;         /* of TpsHttpEndpoint */
  const gchar *const *names; /* that Host may have; see tps_http_guard_accepts_host() */
  TpsAccess *access;         /* NULL = none */
  gboolean serves_others;    /* also serves peers on other machines */
} TpsHttpRules;

/* Calls the handler, so the message has its response on return. `query` may be NULL. */
void tps_http_request_serve (const TpsHttpRules *rules, SoupServerMessage *message,
                             const gchar *path, GHashTable *query);

/* Returns the message, borrowed. For handlers in this folder. */
SoupServerMessage *tps_http_request_get_message (TpsHttpRequest *request);

/* Records that the handler has begun a response on the message without tps_http_request_reply(). */
void tps_http_request_set_answered (TpsHttpRequest *request);
