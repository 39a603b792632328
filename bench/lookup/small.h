/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The smallest calls, one after another: an empty call, a lookup of one row, and a push of one
 * row. */

#pragma once

#include "bench/lookup/id_source.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

/* The kinds of calls, in the order of the report. */
typedef enum
{
  TPS_LOOKUP_SMALL_EMPTY, /* Rendezvous.remove() of a prefix that no key has */
  TPS_LOOKUP_SMALL_LOOKUP,
  TPS_LOOKUP_SMALL_PUSH,
} TpsLookupSmallKind;

#define TPS_LOOKUP_N_SMALL_KINDS 3

/* Returns the name of a kind in the report. Static. */
const gchar *tps_lookup_small_name (TpsLookupSmallKind kind);

/* The work of small calls. */
typedef struct
{
  gsize n_rows, dim; /* of the table */
  TpsLookupIdKind ids;
  guint n_calls;
  TpsTablePlace place;
} TpsLookupSmallShape;

typedef struct TpsLookupSmall TpsLookupSmall;

/* Creates a table of zeros on `server`, which must outlive the result. `shape` is copied. The
 * caller owns the result. Blocks. Errors: those of the call that creates the table. */
TpsLookupSmall *tps_lookup_small_new (const TpsLookupServer *server,
                                      const TpsLookupSmallShape *shape, GError **error);
void tps_lookup_small_free (TpsLookupSmall *small);

/* Creates a client, makes `n_calls` calls of `kind` one after another, and checks the rows that
 * lookups return. Returns the duration of each call in milliseconds, an array of gdouble that the
 * caller owns. `transport` is below TPS_LOOKUP_N_TRANSPORTS. Blocks. Errors: those of the calls;
 * INTERNAL (a wrong row). */
GArray *tps_lookup_small_run (TpsLookupSmall *small, TpsLookupSmallKind kind, guint transport,
                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupSmall, tps_lookup_small_free)

G_END_DECLS
