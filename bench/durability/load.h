/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that push to a table or look up its rows, each with one call after the other on a thread
 * of its own, and the times of all calls. */

#pragma once

#include "bench/durability/server.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsDurabilityTable *table;
  gsize n_ids; /* of a call, drawn in advance */
  guint n_clients;
  gboolean is_push; /* pushes of 1 to each element; otherwise lookups */
} TpsDurabilityLoadShape;

typedef struct
{
  gint64 begin_ns, end_ns;
} TpsDurabilityCall;

typedef struct TpsDurabilityLoad TpsDurabilityLoad;

/* Connects the clients and starts their calls, which continue until tps_durability_load_stop().
 * `shape` is borrowed until then. */
TpsDurabilityLoad *tps_durability_load_start (const gchar *address,
                                              const TpsDurabilityLoadShape *shape, GError **error);

/* Waits for the calls in flight and frees the load. Returns all successful calls, an array of
 * TpsDurabilityCall; NULL with the first error of a client. */
GArray *tps_durability_load_stop (TpsDurabilityLoad *load, GError **error);

/* Frees a load whose result is not needed because of another failure. */
void tps_durability_load_free (TpsDurabilityLoad *load);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurabilityLoad, tps_durability_load_free)

G_END_DECLS
