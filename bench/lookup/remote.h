/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups of rows by RPC. */

#pragma once

#include "bench/lookup/id_source.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

/* The work of lookups. */
typedef struct
{
  gsize n_rows, dim; /* of the table */
  TpsDType dtype;
  gsize n_ids;     /* of a lookup */
  guint n_calls;   /* calls of a single client, one after another */
  guint n_clients; /* clients under load */
  gdouble seconds; /* duration of the load */
  TpsTablePlace place;
  TpsLookupIdKind ids;
} TpsLookupRemoteShape;

/* The measurements of a run. */
typedef struct
{
  GArray *ms; /* of gdouble, the duration of each call of the single client */
  TpsLookupLoad load;
} TpsLookupRemoteTimes;

/* Frees the contents. */
void tps_lookup_remote_times_clear (TpsLookupRemoteTimes *times);

/* Creates and fills the table. Errors: those of the calls. */
gboolean tps_lookup_remote_prepare (const TpsLookupServer *server,
                                    const TpsLookupRemoteShape *shape, GError **error);

/* Runs the lookups and checks their results. The caller must clear `times`, after an error, too.
 * Blocks. Errors: those of the calls; INTERNAL (a wrong row). */
gboolean tps_lookup_remote_run (const TpsLookupServer *server, const TpsLookupRemoteShape *shape,
                                guint transport, TpsLookupRemoteTimes *times, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupRemoteTimes, tps_lookup_remote_times_clear)

G_END_DECLS
