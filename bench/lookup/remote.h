/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups of rows by RPC. */

#pragma once

#include "bench/lookup/id_source.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

typedef struct
{
  gsize n_rows, dim; /* of the table */
  TpsDType dtype;
  gsize n_ids;     /* of a lookup */
  guint n_calls;   /* one after the other */
  guint n_clients; /* under load */
  gdouble seconds; /* of load */
  TpsTablePlace place;
  TpsLookupIdKind ids;
} TpsLookupRemoteShape;

typedef struct
{
  GArray *ms; /* of gdouble: each call of a single client */
  TpsLookupLoad load;
} TpsLookupRemoteTimes;

void tps_lookup_remote_times_clear (TpsLookupRemoteTimes *times);

/* Creates and fills the table. */
gboolean tps_lookup_remote_prepare (const TpsLookupServer *server,
                                    const TpsLookupRemoteShape *shape, GError **error);

/* Runs the lookups and checks their results. Blocks. */
gboolean tps_lookup_remote_run (const TpsLookupServer *server, const TpsLookupRemoteShape *shape,
                                guint transport, TpsLookupRemoteTimes *times, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupRemoteTimes, tps_lookup_remote_times_clear)

G_END_DECLS
