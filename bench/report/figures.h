/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Samples of systems that do the same work, as a table and as JSON. A line of the table is a row
 * ("push 16 MiB tcp") of a system ("thriftps"). It shows one main figure, further figures, and the
 * ratios of the main figure to limits and peers. The name of a main figure does not include the
 * quantity. */

#pragma once

#include "bench/report/json_output.h"

G_BEGIN_DECLS

typedef struct TpsFigures TpsFigures;

/* A kind of figure; all strings are static. */
typedef struct
{
  const gchar *suffix; /* of the figure's name: " time"; "" for main figures */
  const gchar *unit;
} TpsQuantity;

/* A column of the table: a percentile of the line's figure of this suffix and unit (NULL = any). */
typedef struct
{
  const gchar *title; /* ends the array if NULL */
  const gchar *suffix, *unit;
  gdouble percent; /* 0 to 100 */
} TpsFigureColumn;

/* The names and the columns of a benchmark's figures. `name` returns the JSON name of a figure of
 * our systems, without the suffix; a figure of a peer has the name of the row. `label` returns the
 * first cell of a line. The caller owns both; NULL functions give "SYSTEM, ROW". `columns` is static
 * and ends with a NULL title. */
typedef struct
{
  gchar *(*name) (const gchar *system, const gchar *row);
  gchar *(*label) (const gchar *system, const gchar *row);
  const TpsFigureColumn *columns;
  gboolean has_units; /* the unit of the main figure follows the columns */
} TpsFigureStyle;

/* Creates an empty set of figures. The caller owns the result; `style` is static. */
TpsFigures *tps_figures_new (const TpsFigureStyle *style);
void tps_figures_free (TpsFigures *figures);

/* A system for comparison with our systems. If it has a version, it is a peer. Otherwise it is one
 * of our systems, and its figures get no ratios in JSON. */
typedef struct
{
  const gchar *name;    /* static */
  const gchar *title;   /* of the column of ratios to this system; static; NULL = no column */
  const gchar *version; /* copied; NULL = one of our systems */
} TpsFigureLimit;

/* Adds a limit. If a limit of this name exists, the call has no effect. */
void tps_figures_add_limit (TpsFigures *figures, const TpsFigureLimit *limit);

/* Adds one sample, or several samples (an array of gdouble, which is copied). `system` and
 * `quantity` are static; `row` is copied. */
void tps_figures_add (TpsFigures *figures, const gchar *system, const gchar *row,
                      const TpsQuantity *quantity, gdouble sample);
void tps_figures_add_all (TpsFigures *figures, const gchar *system, const gchar *row,
                          const TpsQuantity *quantity, const GArray *samples);

/* Returns the samples of a figure, an array of gdouble; NULL if there are none. Borrowed. */
const GArray *tps_figures_get_samples (const TpsFigures *figures, const gchar *system,
                                       const gchar *row, const TpsQuantity *quantity);

/* Returns the median of a main figure; NAN if there is none. */
gdouble tps_figures_get_median (const TpsFigures *figures, const gchar *system, const gchar *row);

/* Formats the table. The caller owns the result. */
gchar *tps_figures_show (const TpsFigures *figures);

/* Adds our figures, the peers, and the ratio of each main figure of ours to each limit with the
 * same row. The ratios are marked "higher is better", so main figures must be rates. */
void tps_figures_output (const TpsFigures *figures, TpsBenchOutput *output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFigures, tps_figures_free)

G_END_DECLS
