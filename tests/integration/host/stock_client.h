/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that C GLib's generator makes, of our contract and of the host's, as a program has them
 * that knows only Thrift: socket, framed or buffered, binary or compact, multiplexed. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct StockClient StockClient;

/* Registers and repairs the types that the clients use, without which they leak and race. Once. */
void stock_client_register_types (void);

/* Connects. */
StockClient *stock_client_new (guint16 port, gboolean framed, gboolean compact);
void stock_client_free (StockClient *client);

/* ps.ParameterServer.average_gradient with a dense FLOAT32 gradient of one dimension; `average` has
 * room for as many. 0 on success, the ServiceError's code with its message in `message` (the
 * caller's), -1 for anything else. */
gint stock_client_average (StockClient *client, gint trainer, gint64 batch, const gfloat *elements,
                           guint n_elems, gfloat *average, gchar **message);

/* Journal.ping; NULL where it fails. */
gchar *stock_client_ping (StockClient *client, const gchar *text);

G_END_DECLS
