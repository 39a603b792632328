/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model on a parameter server, for one of its trainers.
 *
 * What is tried again within the deadline: see retry.h. Every update has a push id of its own, so
 * that this applies it once.
 */

#pragma once

#include "plugin/client/client.h"
#include "runtime/trainer/ports/model_client.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *address;
  gint32 trainer;
  const gchar *client;     /* who pushes, unique among all clients; NULL = a random name */
  gsize max_message_bytes; /* of an answer; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* the same */
} TpsRemoteModelOptions;

/* Does not connect yet. Errors: INVALID_ARGUMENT for an address that cannot be understood. */
TpsModelClient *tps_remote_model_new (const TpsRemoteModelOptions *options, GError **error);

G_END_DECLS
