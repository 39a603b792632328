/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that push to a table or look up its rows (bench/served/callers.h). */

#pragma once

#include "bench/durability/server.h"
#include "bench/served/callers.h"

G_BEGIN_DECLS

/* The work of the clients; borrowed. */
typedef struct
{
  const TpsDurabilityTable *table;
  gsize n_ids; /* ids of a call; drawn in advance */
  guint n_clients;
  gboolean is_push; /* pushes add 1 to each element; FALSE = lookups */
} TpsDurabilityLoadShape;

typedef struct TpsDurabilityLoad TpsDurabilityLoad;

/* Connects the clients and starts their calls, which continue until tps_durability_load_stop().
 * `shape` is borrowed until then. The caller owns the result. Errors: those of
 * tps_served_connect(). */
TpsDurabilityLoad *tps_durability_load_start (const gchar *address,
                                              const TpsDurabilityLoadShape *shape, GError **error);

/* Waits for the calls in flight and frees the load. Returns all calls, as tps_callers_stop()
 * does. */
GArray *tps_durability_load_stop (TpsDurabilityLoad *load, GError **error);

/* Cancels the calls in flight and frees a load, after another failure. */
void tps_durability_load_free (TpsDurabilityLoad *load);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurabilityLoad, tps_durability_load_free)

G_END_DECLS
