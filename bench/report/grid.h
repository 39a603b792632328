/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Text tables with ruled cells, laid out as the originals' reports (tabulate's "grid").
 *
 * One space on each side of a cell; a column is as wide as its header plus two or its widest cell.
 * The first column and headers of text are left-aligned; numbers have six significant digits and
 * their decimal points in one line.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsGrid TpsGrid;

/* `headers`: the first is a text column, the others are numbers. Copied. */
TpsGrid *tps_grid_new (const gchar *const *headers, guint n_columns);
void tps_grid_free (TpsGrid *grid);

/* `numbers`: n_columns - 1 of them; NAN prints as "-". */
void tps_grid_add_row (TpsGrid *grid, const gchar *name, const gdouble *numbers);

/* The finished text, owned by the caller; ends with a newline. Frees the grid. */
gchar *tps_grid_free_to_string (TpsGrid *grid);

/* The same cells as comma-separated values, texts in quotes; an unknown number is empty. Owned by
 * the caller. Frees the grid. */
gchar *tps_grid_free_to_csv (TpsGrid *grid);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsGrid, tps_grid_free)

G_END_DECLS
