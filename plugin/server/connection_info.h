/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The description of one connection, for reports: see tps_server_list_connections(). */

#pragma once

#include "plugin/access/principal.h"

G_BEGIN_DECLS

/* A snapshot of one connection. Its owner owns `peer` and the reference in `principal`. */
typedef struct
{
  guint64 id; /* > 0, unique in this server */
  gchar *peer;
  TpsPrincipal *principal; /* a reference */
  gboolean is_unix;
  gboolean is_encrypted;
  const gchar *protocol; /* "binary" or "compact", static; NULL = no message yet */
  gboolean is_framed;    /* of the last message */
  gint64 age_ns;
  guint64 n_calls;
  guint n_in_flight; /* calls without a reply */
  guint64 n_received_bytes, n_sent_bytes;
  gsize n_queued_bytes; /* of replies that the socket has not accepted */
  gsize n_shared_bytes; /* of memory that is shared with the client */
  gboolean is_half_closed;
} TpsConnectionInfo;

G_END_DECLS
