/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that C GLib's generator creates, of our contract and of the host's, used as by a program
 * without ThriftPS: socket, framed or buffered, binary or compact, multiplexed. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct StockClient StockClient;

/* Registers and repairs the types that the clients use, which would otherwise leak and race. Call
 * it once. */
void stock_client_register_types (void);

/* Connects. */
StockClient *stock_client_new (guint16 port, gboolean framed, gboolean compact);
void stock_client_free (StockClient *client);

/* Calls ps.ParameterServer.average_gradient with a dense FLOAT32 gradient of one dimension;
 * `average` has room for as many elements. Returns 0 on success, the ServiceError's code with its
 * message in `message` (owned by the caller), or -1 for any other failure. */
gint stock_client_average (StockClient *client, gint trainer, gint64 batch, const gfloat *elements,
                           guint n_elems, gfloat *average, gchar **message);

/* Calls Journal.ping; NULL if it fails. */
gchar *stock_client_ping (StockClient *client, const gchar *text);

G_END_DECLS
