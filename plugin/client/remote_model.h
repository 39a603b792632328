/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Access to the model of a parameter server, for one of its trainers. Calls are retried until the
 * deadline, as defined in rpc_call.h. Every update has its own push id, so that a retried update is
 * applied only once.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/ports/model_client.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *address;    /* of the server; see TpsClientOptions */
  gint32 trainer;          /* the number of this trainer */
  const gchar *client;     /* name in push ids, unique among all clients; NULL = a random name */
  gsize max_message_bytes; /* limit of a reply; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* see TpsClientOptions */
} TpsRemoteModelOptions;

/* Creates a model client, which does not connect yet. The caller owns it. Errors: INVALID_ARGUMENT
 * if the address cannot be parsed. Thread: any. */
TpsModelClient *tps_remote_model_new (const TpsRemoteModelOptions *options, GError **error);

G_END_DECLS
