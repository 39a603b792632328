/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients from C GLib's generator, for the project's contract and for the host's service. They are
 * used as in a program without ThriftPS: socket, framed or buffered, binary or compact,
 * multiplexed. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct StockClient StockClient;

/* Registers and repairs the types that the clients use. Without this they would leak and race. Call
 * it once. */
void stock_client_register_types (void);

/* Creates a client and connects it. */
StockClient *stock_client_new (guint16 port, gboolean framed, gboolean compact);
void stock_client_free (StockClient *client);

/* Calls ps.ParameterServer.average_gradient with a dense FLOAT32 gradient of one dimension.
 * `average` must have room for `n_elems` elements. Returns 0 on success, or -1 for any failure
 * other than a ServiceError. For a ServiceError it returns the code, and stores the message in
 * `*message`, which the caller owns. */
gint stock_client_average (StockClient *client, gint trainer, gint64 batch, const gfloat *elements,
                           guint n_elems, gfloat *average, gchar **message);

/* Calls Journal.ping. Returns NULL if the call fails. */
gchar *stock_client_ping (StockClient *client, const gchar *text);

G_END_DECLS
