/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a server with a data directory promises about a request that it has answered.
 * thrift/embedding_table.thrift says the same to clients. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The numbers are those of the wire; the greater one promises more. */
typedef enum
{
  TPS_DURABILITY_NONE = 1, /* nothing: a restart may lose it, and keep later ones */
  /* A crash loses at most the last `interval` of requests, and never one before another that it
   * keeps. */
  TPS_DURABILITY_INTERVAL = 2,
  TPS_DURABILITY_COMMIT = 3, /* it is on the disk */
} TpsDurability;

#define TPS_DURABILITY_INTERVAL_NS ((gint64) 100 * 1000000)

/* "none", "interval", "commit"; static. */
const gchar *tps_durability_name (TpsDurability durability);

/* "none", "interval", "interval:MS" (1 to 60000) or "commit". Sets `interval_ns` for "interval:MS"
 * only. FALSE: it is none of these, and nothing is set. */
gboolean tps_durability_parse (const gchar *text, TpsDurability *durability, gint64 *interval_ns);

G_END_DECLS
