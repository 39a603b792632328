/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/grid.h"

#include <math.h>
#include <string.h>

struct TpsGrid
{
  GPtrArray *headers; /* of gchar * */
  GPtrArray *rows;    /* of GStrv, one text per column */
};

TpsGrid *
tps_grid_new (const gchar *const *headers, guint n_columns)
{
  TpsGrid *grid = g_new0 (TpsGrid, 1);

  grid->headers = g_ptr_array_new_with_free_func (g_free);
  grid->rows = g_ptr_array_new_with_free_func ((GDestroyNotify) g_strfreev);
  for (guint i = 0; i < n_columns; i++)
    g_ptr_array_add (grid->headers, g_strdup (headers[i]));
  return grid;
}

void
tps_grid_free (TpsGrid *grid)
{
  g_ptr_array_unref (grid->headers);
  g_ptr_array_unref (grid->rows);
  g_free (grid);
}

void
tps_grid_add_row (TpsGrid *grid, const gchar *name, const gdouble *numbers)
{
  gchar **cells = g_new0 (gchar *, grid->headers->len + 1);

  cells[0] = g_strdup (name);
  for (guint i = 1; i < grid->headers->len; i++)
    cells[i] = isnan (numbers[i - 1]) ? g_strdup ("-") : g_strdup_printf ("%g", numbers[i - 1]);
  g_ptr_array_add (grid->rows, cells);
}

/* Returns the number of characters after the decimal point, or else "e"; -1 without both. */
static gint
n_after_point (const gchar *text)
{
  const gchar *at = strchr (text, '.');

  if (at == NULL)
    at = strchr (text, 'e');
  return at == NULL ? -1 : (gint) strlen (at + 1);
}

/* Pads the numbers of a column on the right. Right alignment then aligns their decimal points. */
static void
align_points (TpsGrid *grid, guint column)
{
  gint most = -1;

  for (guint i = 0; i < grid->rows->len; i++)
    most = MAX (most, n_after_point (((gchar **) grid->rows->pdata[i])[column]));
  for (guint i = 0; i < grid->rows->len; i++)
    {
      gchar **cell = &((gchar **) grid->rows->pdata[i])[column];
      gint missing = most - n_after_point (*cell);
      gchar *padded = g_strdup_printf ("%s%*s", *cell, missing, "");

      g_free (*cell);
      *cell = padded;
    }
}

static gint
column_width (const TpsGrid *grid, guint column)
{
  gsize width = strlen (grid->headers->pdata[column]) + 2;

  for (guint i = 0; i < grid->rows->len; i++)
    width = MAX (width, strlen (((gchar **) grid->rows->pdata[i])[column]));
  return (gint) width;
}

static void
append_rule (GString *text, const gint *widths, guint n_columns, gchar stroke)
{
  for (guint i = 0; i < n_columns; i++)
    {
      g_string_append_c (text, '+');
      for (gint j = 0; j < widths[i] + 2; j++)
        g_string_append_c (text, stroke);
    }
  g_string_append (text, "+\n");
}

static void
append_cells (GString *text, gchar *const *cells, const gint *widths, guint n_columns, guint n_left)
{
  for (guint i = 0; i < n_columns; i++)
    g_string_append_printf (text, i < n_left ? "| %-*s " : "| %*s ", widths[i], cells[i]);
  g_string_append (text, "|\n");
}

gchar *
tps_grid_free_to_string (TpsGrid *grid)
{
  guint n_columns = grid->headers->len;
  g_autofree gint *widths = g_new (gint, n_columns);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n_columns; i++)
    {
      if (i > 0)
        align_points (grid, i);
      widths[i] = column_width (grid, i);
    }
  append_rule (text, widths, n_columns, '-');
  /* Without rows, no column is known to contain numbers. */
  append_cells (text, (gchar *const *) grid->headers->pdata, widths, n_columns,
                grid->rows->len == 0 ? n_columns : 1);
  append_rule (text, widths, n_columns, '=');
  for (guint i = 0; i < grid->rows->len; i++)
    {
      append_cells (text, grid->rows->pdata[i], widths, n_columns, 1);
      append_rule (text, widths, n_columns, '-');
    }
  if (grid->rows->len == 0)
    append_rule (text, widths, n_columns, '-');
  tps_grid_free (grid);
  return g_string_free (text, FALSE);
}
