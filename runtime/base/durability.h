/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The durability of the changes that a server with a data directory has acknowledged.
 * thrift/embedding_table.thrift documents it for clients. */

#pragma once

#include <thriftps/tables.h>

G_BEGIN_DECLS

/* The largest LSN, version of the model or number of steps that is read from a file; counting on
 * from it must not overflow. A server that begins with the state of another one accepts only the
 * lower half. */
#define TPS_MAX_COUNT ((gint64) 1 << 62)

#define TPS_DURABILITY_INTERVAL_NS ((gint64) 100 * 1000000)

/* Returns "none", "interval" or "commit"; static. */
const gchar *tps_durability_name (TpsDurability durability);

/* Parses "none", "interval", "interval:MS" (1 to 60000) or "commit". Sets `interval_ns` for
 * "interval:MS" only. Returns FALSE if `text` is invalid; nothing is set then. */
gboolean tps_durability_parse (const gchar *text, TpsDurability *durability, gint64 *interval_ns);

G_END_DECLS
