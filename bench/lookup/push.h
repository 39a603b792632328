/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pushes of gradients of rows by RPC, under the load of several clients. */

#pragma once

#include "bench/lookup/id_source.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

/* A pattern of pushes; static. */
typedef struct
{
  const gchar *name;  /* such as "push 2000 x 64": rows of a push, and floats of a row */
  const gchar *table; /* the table of this pattern */
  gsize n_ids, dim;
  guint n_clients;
} TpsLookupPattern;

#define TPS_LOOKUP_N_PATTERNS 2

/* The pushes of one pattern so far. */
typedef struct
{
  const TpsLookupPattern *pattern;
  gsize n_rows;
  TpsLookupIdKind ids; /* set by the owner before a run */
  gint64 n_pushes;     /* all pushes to the table */
} TpsLookupPushes;

/* Creates the table of pattern number `i`. Errors: those of tps_lookup_server_make_table(). */
gboolean tps_lookup_pushes_prepare (TpsLookupPushes *pushes, const TpsLookupServer *server, guint i,
                                    gsize n_rows, const TpsTablePlace *place, GError **error);

/* Pushes for `seconds`, and compares the sum of the table with that of all pushes. `*load` receives
 * the rates. Blocks. Errors: those of the calls; INTERNAL (another sum). */
gboolean tps_lookup_pushes_run (TpsLookupPushes *pushes, const TpsLookupServer *server,
                                guint transport, gdouble seconds, TpsLookupLoad *load,
                                GError **error);

G_END_DECLS
