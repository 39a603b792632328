/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The samples of systems that do the same work, as a table and as JSON. A line of the table is a
 * row ("push 16 MiB tcp") on a system ("thriftps"). It has one main figure, in whose name the
 * quantity does not stand, others beside it, and ratios to limits and peers.
 */

#pragma once

#include "bench/report/json_output.h"

G_BEGIN_DECLS

typedef struct TpsFigures TpsFigures;

/* A kind of figure; static. */
typedef struct
{
  const gchar *suffix; /* of its name: " time"; "" for main figures */
  const gchar *unit;
} TpsQuantity;

/* A column of the table: a percentile of the line's figure that has this suffix and unit, of which
 * either may be NULL. */
typedef struct
{
  const gchar *title;
  const gchar *suffix, *unit;
  gdouble percent;
} TpsFigureColumn;

/* `name`: the name in JSON of one of our systems' figures, but for the suffix; a peer's has the
 * name of the row. `label`: what a line of the table begins with. Both results are owned by the
 * caller. `columns` is static and ends with a title of NULL. */
typedef struct
{
  gchar *(*name) (const gchar *system, const gchar *row);
  gchar *(*label) (const gchar *system, const gchar *row);
  const TpsFigureColumn *columns;
  gboolean has_units; /* of main figures, behind the columns */
} TpsFigureStyle;

/* `style` is static. */
TpsFigures *tps_figures_new (const TpsFigureStyle *style);
void tps_figures_free (TpsFigures *figures);

/* A system that ours are compared with. One with a version, which is copied, is a peer; the others
 * are ours, and are compared with none. */
typedef struct
{
  const gchar *name;    /* static */
  const gchar *title;   /* of its column of ratios; static; NULL = none */
  const gchar *version; /* NULL = ours */
} TpsFigureLimit;

/* A limit of that name that is there already stays as it is. */
void tps_figures_add_limit (TpsFigures *figures, const TpsFigureLimit *limit);

/* One more sample, and several (of gdouble). `system` is static. */
void tps_figures_add (TpsFigures *figures, const gchar *system, const gchar *row,
                      const TpsQuantity *quantity, gdouble sample);
void tps_figures_add_all (TpsFigures *figures, const gchar *system, const gchar *row,
                          const TpsQuantity *quantity, const GArray *samples);

/* The samples of a figure, an array of gdouble, borrowed; NULL where there are none. */
const GArray *tps_figures_get_samples (const TpsFigures *figures, const gchar *system,
                                       const gchar *row, const TpsQuantity *quantity);

/* The median of a main figure; NAN where there is none. */
gdouble tps_figures_get_median (const TpsFigures *figures, const gchar *system, const gchar *row);

/* Owned by the caller. */
gchar *tps_figures_show (const TpsFigures *figures);

/* Figures of ours, peers, and the ratio of each main figure of ours to each limit that has run its
 * row: of rates, higher is better. */
void tps_figures_output (const TpsFigures *figures, TpsBenchOutput *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFigures, tps_figures_free)

G_END_DECLS
