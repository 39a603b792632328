/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model on a parameter server, for one of its trainers. retry.h defines the retries within the
 * deadline. Every update has a push id of its own, so that a retry is applied once.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/trainer/ports/model_client.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *address;
  gint32 trainer;
  const gchar *client;     /* name in push ids, unique among all clients; NULL = a random name */
  gsize max_message_bytes; /* limit of a reply; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* the same */
} TpsRemoteModelOptions;

/* Creates a model client, which the caller owns. It does not connect yet. Errors: INVALID_ARGUMENT
 * if the address cannot be parsed. Thread: any. */
TpsModelClient *tps_remote_model_new (const TpsRemoteModelOptions *options, GError **error);

G_END_DECLS
