/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Text tables with ruled cells, in the layout of the reports of the originals (the format "grid" of
 * the Python package tabulate).
 *
 * A cell has one space on each side. The width of a column is the width of its widest cell, or of
 * its header plus two. The first column and its header are left-aligned. Numbers have six
 * significant digits and aligned decimal points. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsGrid TpsGrid;

/* Creates a table. The first of the `headers` belongs to a text column, the others to columns of
 * numbers. The headers are copied. The caller owns the result. */
TpsGrid *tps_grid_new (const gchar *const *headers, guint n_columns);
void tps_grid_free (TpsGrid *grid);

/* Adds a row with n_columns - 1 `numbers`. NAN prints as "-". */
void tps_grid_add_row (TpsGrid *grid, const gchar *name, const gdouble *numbers);

/* Returns the text, which ends with a newline, and frees the grid. The caller owns the result. */
gchar *tps_grid_free_to_string (TpsGrid *grid);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsGrid, tps_grid_free)

G_END_DECLS
