/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that push to a table or look up its rows, one call after the other, each on a thread of
 * its own, and what every call took. */

#pragma once

#include "bench/durability/server.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsDurabilityTable *table;
  gsize n_ids; /* of a call, drawn beforehand */
  guint n_clients;
  gboolean is_push; /* of 1 to each element; otherwise lookups */
} TpsDurabilityLoadShape;

typedef struct
{
  gint64 begin_ns, end_ns;
} TpsDurabilityCall;

typedef struct TpsDurabilityLoad TpsDurabilityLoad;

/* Connects the clients and lets them call until tps_durability_load_stop(). `shape` is borrowed
 * until then. */
TpsDurabilityLoad *tps_durability_load_start (const gchar *address,
                                              const TpsDurabilityLoadShape *shape, GError **error);

/* Waits for the calls in flight, and frees. All calls that succeeded: an array of
 * TpsDurabilityCall; NULL with the first error of a client. */
GArray *tps_durability_load_stop (TpsDurabilityLoad *load, GError **error);

/* For those that have failed otherwise. */
void tps_durability_load_free (TpsDurabilityLoad *load);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurabilityLoad, tps_durability_load_free)

G_END_DECLS
