/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The samples of all systems, as a table and as JSON. */

#pragma once

#include "bench/report/json_output.h"

G_BEGIN_DECLS

/* Whose figures are compared with ours. */
#define TPS_LOOKUP_LIMIT "gather"
#define TPS_LOOKUP_PEER "pytorch"

typedef struct
{
  GArray *all;         /* in the order in which they first came */
  gchar *peer_version; /* NULL = there is none */
} TpsLookupFigures;

void tps_lookup_figures_init (TpsLookupFigures *figures);
void tps_lookup_figures_clear (TpsLookupFigures *figures);

/* One more sample of `title` ("1 thread") of a system ("pool", TPS_LOOKUP_PEER). `system` and `unit` are static. Those of
 * one title are compared. */
void tps_lookup_figures_add (TpsLookupFigures *figures, const gchar *system, const gchar *title,
                             const gchar *unit, gdouble sample);

/* Owned by the caller. */
gchar *tps_lookup_figures_show (const TpsLookupFigures *figures);

void tps_lookup_figures_output (const TpsLookupFigures *figures, TpsBenchOutput *output);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupFigures, tps_lookup_figures_clear)

G_END_DECLS
