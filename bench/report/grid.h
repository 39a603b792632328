/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Text tables with ruled cells in the layout of the originals' reports (tabulate's "grid").
 *
 * Cells have one space on each side. The width of a column is that of its widest cell, or of its
 * header plus two. The first column and text headers are left-aligned. Numbers have six significant
 * digits and aligned decimal points.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsGrid TpsGrid;

/* Creates a table. The first of `headers` is a text column, the others are numbers. Copied. Owned
 * by the caller. */
TpsGrid *tps_grid_new (const gchar *const *headers, guint n_columns);
void tps_grid_free (TpsGrid *grid);

/* Adds a row with n_columns - 1 `numbers`; NAN prints as "-". */
void tps_grid_add_row (TpsGrid *grid, const gchar *name, const gdouble *numbers);

/* Returns the finished text, which ends with a newline, owned by the caller. Frees the grid. */
gchar *tps_grid_free_to_string (TpsGrid *grid);

/* Returns the same cells as comma-separated values, with quoted texts; an unknown number is empty.
 * Owned by the caller. Frees the grid. */
gchar *tps_grid_free_to_csv (TpsGrid *grid);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsGrid, tps_grid_free)

G_END_DECLS
