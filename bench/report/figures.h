/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The samples of systems that do the same work, as a table and as JSON: one figure for each row that a system has run, next to its
 * ratios to limits and peers.
 */

#pragma once

#include "bench/report/json_output.h"

G_BEGIN_DECLS

typedef struct TpsFigures TpsFigures;

/* `name_ours`: the name of one of our systems' figure from the system's name and the row's ("%s, %s"); owned. A peer's figure has the
 * name of the row. */
typedef gchar *(*TpsFigureNamer) (const gchar *system, const gchar *row);
TpsFigures *tps_figures_new (TpsFigureNamer name_ours);
void tps_figures_free (TpsFigures *figures);

/* A system that ours are compared with: a column of ratios. `name` and `title` ("of gather") are static. `is_peer`: it is listed as a
 * peer with `version`, which is copied; else it is one of ours. */
typedef struct
{
  const gchar *name;
  const gchar *title;
  const gchar *version; /* NULL: one of ours */
} TpsFigureLimit;
void tps_figures_add_limit (TpsFigures *figures, const TpsFigureLimit *limit);

/* One more sample of a row ("1 thread") on a system ("pool"). `system` and `unit` are static. */
void tps_figures_add (TpsFigures *figures, const gchar *system, const gchar *row, const gchar *unit,
                      gdouble sample);

/* Owned by the caller. */
gchar *tps_figures_show (const TpsFigures *figures);

/* Figures of ours, peers, and the ratio of each of ours to each limit that has run its row: of rates, higher is better. Limits that are
 * ours are compared with no other. */
void tps_figures_output (const TpsFigures *figures, TpsBenchOutput *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFigures, tps_figures_free)

G_END_DECLS
