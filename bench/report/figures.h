/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Samples of systems that do the same work, as a table and as JSON. A line of the table is a row
 * ("push 16 MiB tcp") on a system ("thriftps"). It has one main figure, whose name does not include
 * the quantity, further figures, and ratios to limits and peers.
 */

#pragma once

#include "bench/report/json_output.h"

G_BEGIN_DECLS

typedef struct TpsFigures TpsFigures;

/* A kind of figure; static. */
typedef struct
{
  const gchar *suffix; /* of the figure's name: " time"; "" for main figures */
  const gchar *unit;
} TpsQuantity;

/* A column of the table: a percentile of the line's figure with this suffix and unit; either may be
 * NULL. */
typedef struct
{
  const gchar *title;
  const gchar *suffix, *unit;
  gdouble percent;
} TpsFigureColumn;

/* `name` returns the JSON name of one of our systems' figures, without the suffix; a peer's figure
 * is named after the row. `label` returns the first cell of a line of the table. Both results are
 * owned by the caller. `columns` is static and ends with a NULL title. */
typedef struct
{
  gchar *(*name) (const gchar *system, const gchar *row);
  gchar *(*label) (const gchar *system, const gchar *row);
  const TpsFigureColumn *columns;
  gboolean has_units; /* the units of main figures follow the columns */
} TpsFigureStyle;

/* Creates an empty set of figures, owned by the caller. `style` is static. */
TpsFigures *tps_figures_new (const TpsFigureStyle *style);
void tps_figures_free (TpsFigures *figures);

/* A system for comparison with ours. A system with a version, which is copied, is a peer. The
 * others are ours and are not compared with peers. */
typedef struct
{
  const gchar *name;    /* static */
  const gchar *title;   /* of its column of ratios; static; NULL = none */
  const gchar *version; /* NULL = ours */
} TpsFigureLimit;

/* Adds a limit; an existing limit of that name is kept. */
void tps_figures_add_limit (TpsFigures *figures, const TpsFigureLimit *limit);

/* Add one sample or several (of gdouble). `system` is static. */
void tps_figures_add (TpsFigures *figures, const gchar *system, const gchar *row,
                      const TpsQuantity *quantity, gdouble sample);
void tps_figures_add_all (TpsFigures *figures, const gchar *system, const gchar *row,
                          const TpsQuantity *quantity, const GArray *samples);

/* Returns the samples of a figure, an array of gdouble, borrowed; NULL if there are none. */
const GArray *tps_figures_get_samples (const TpsFigures *figures, const gchar *system,
                                       const gchar *row, const TpsQuantity *quantity);

/* Returns the median of a main figure; NAN if there is none. */
gdouble tps_figures_get_median (const TpsFigures *figures, const gchar *system, const gchar *row);

/* Formats the table. Owned by the caller. */
gchar *tps_figures_show (const TpsFigures *figures);

/* Adds our figures, the peers, and the ratio of each main figure of ours to each limit with the
 * same row. For rates, higher is better. */
void tps_figures_output (const TpsFigures *figures, TpsBenchOutput *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFigures, tps_figures_free)

G_END_DECLS
