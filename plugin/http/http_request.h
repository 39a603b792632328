/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One request, from libsoup's message to the endpoint that answers it:
 *
 *   tps_http_request_begin()   when libsoup has started to read it: its body is bounded
 *   tps_http_request_serve()   when it has come: Host -> right -> path -> method -> origin ->
 *                              handler
 *
 * Thread: the HTTP thread alone.
 */

#pragma once

#include "plugin/http/http.h"
#include "plugin/http/http_connections.h"

G_BEGIN_DECLS

/* The rules that all requests share; borrowed. */
typedef struct
{
  GArray *endpoints;         /* of TpsHttpEndpoint */
  const gchar *const *names; /* besides addresses and localhost, that Host may have; NULL = none */
  TpsAccess *access;         /* NULL = none */
  gboolean serves_others;    /* peers on other machines */
} TpsHttpRules;

/* Thread: the HTTP thread. */
void tps_http_request_begin (SoupServerMessage *message);

/* Answers the message, now. `query` may be NULL. */
void tps_http_request_serve (const TpsHttpRules *rules, SoupServerMessage *message,
                             const gchar *path, GHashTable *query);

/* For handlers inside this folder. */
SoupServerMessage *tps_http_request_get_message (TpsHttpRequest *request);

/* The handler has begun an answer of its own on the message. */
void tps_http_request_set_answered (TpsHttpRequest *request);

G_END_DECLS
