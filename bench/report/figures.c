/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/figures.h"

#include <math.h>


#define LABEL_COLUMNS 46

typedef struct
{
  const gchar *system;
  gchar *row;
  const TpsQuantity *quantity;
  GArray *samples; /* of gdouble */
} Figure;

struct TpsFigures
{
  const TpsFigureStyle *style;
  GArray *all;    /* of Figure, in the order of their first samples */
  GArray *limits; /* of TpsFigureLimit */
};

static void
figure_clear (gpointer data)
{
  Figure *figure = data;

  g_free (figure->row);
  g_array_unref (figure->samples);
}

static void
limit_clear (gpointer data)
{
  /* `version` is the only owned string of a limit. */
  g_free ((gchar *) (gsize) ((TpsFigureLimit *) data)->version);
}

TpsFigures *
tps_figures_new (const TpsFigureStyle *style)
{
  TpsFigures *figures = g_new0 (TpsFigures, 1);

  figures->style = style;
  figures->all = g_array_new (FALSE, FALSE, sizeof (Figure));
  g_array_set_clear_func (figures->all, figure_clear);
  figures->limits = g_array_new (FALSE, FALSE, sizeof (TpsFigureLimit));
  g_array_set_clear_func (figures->limits, limit_clear);
  return figures;
}

void
tps_figures_free (TpsFigures *figures)
{
  g_array_unref (figures->all);
  g_array_unref (figures->limits);
  g_free (figures);
}

static const Figure *
get_figure (const TpsFigures *figures, guint i)
{
  return &g_array_index (figures->all, Figure, i);
}

static const TpsFigureLimit *
get_limit (const TpsFigures *figures, guint i)
{
  return &g_array_index (figures->limits, TpsFigureLimit, i);
}

/* Returns NULL if the system is not a limit. Borrowed. */
static const TpsFigureLimit *
find_limit (const TpsFigures *figures, const gchar *system)
{
  for (guint i = 0; i < figures->limits->len; i++)
    if (g_str_equal (get_limit (figures, i)->name, system))
      return get_limit (figures, i);
  return NULL;
}

void
tps_figures_add_limit (TpsFigures *figures, const TpsFigureLimit *limit)
{
  TpsFigureLimit added = *limit;

  if (find_limit (figures, limit->name) != NULL)
    return;
  added.version = g_strdup (limit->version);
  g_array_append_val (figures->limits, added);
}

/* Finds a figure; a `suffix` or `unit` of NULL matches any. */
static const Figure *
find_figure (const TpsFigures *figures, const gchar *system, const gchar *row, const gchar *suffix,
             const gchar *unit)
{
  for (guint i = 0; i < figures->all->len; i++)
    {
      const Figure *figure = get_figure (figures, i);

      if (g_str_equal (figure->system, system) && g_str_equal (figure->row, row)
          && (suffix == NULL || g_str_equal (figure->quantity->suffix, suffix))
          && (unit == NULL || g_str_equal (figure->quantity->unit, unit)))
        return figure;
    }
  return NULL;
}

static const Figure *
find_main (const TpsFigures *figures, const gchar *system, const gchar *row)
{
  return find_figure (figures, system, row, "", NULL);
}

static gboolean
is_main (const Figure *figure)
{
  return figure->quantity->suffix[0] == '\0';
}

static const Figure *
find_or_add (TpsFigures *figures, const gchar *system, const gchar *row,
             const TpsQuantity *quantity)
{
  const Figure *figure = find_figure (figures, system, row, quantity->suffix, NULL);
  Figure added = { .system = system, .quantity = quantity };

  if (figure != NULL)
    return figure;
  added.row = g_strdup (row);
  added.samples = g_array_new (FALSE, FALSE, sizeof (gdouble));
  g_array_append_val (figures->all, added);
  return get_figure (figures, figures->all->len - 1);
}

void
tps_figures_add (TpsFigures *figures, const gchar *system, const gchar *row,
                 const TpsQuantity *quantity, gdouble sample)
{
  g_array_append_val (find_or_add (figures, system, row, quantity)->samples, sample);
}

void
tps_figures_add_all (TpsFigures *figures, const gchar *system, const gchar *row,
                     const TpsQuantity *quantity, const GArray *samples)
{
  g_array_append_vals (find_or_add (figures, system, row, quantity)->samples, samples->data,
                       samples->len);
}

const GArray *
tps_figures_get_samples (const TpsFigures *figures, const gchar *system, const gchar *row,
                         const TpsQuantity *quantity)
{
  const Figure *figure = find_figure (figures, system, row, quantity->suffix, quantity->unit);

  return figure != NULL ? figure->samples : NULL;
}

/* Returns NAN for NULL. */
static gdouble
get_median (const Figure *figure)
{
  return figure != NULL ? tps_percentile (figure->samples, 50) : (gdouble) NAN;
}

gdouble
tps_figures_get_median (const TpsFigures *figures, const gchar *system, const gchar *row)
{
  return get_median (find_main (figures, system, row));
}

/* -- table -- */

static void
append_cell (GString *text, gdouble value, gboolean is_ratio)
{
  g_autofree gchar *cell = isnan (value) ? g_strdup ("-")
                           : is_ratio    ? g_strdup_printf ("%.3f", value)
                                         : g_strdup_printf ("%.4g", value);

  g_string_append_printf (text, " %10s", cell);
}

static void
append_header (GString *text, const TpsFigures *figures)
{
  g_string_append_printf (text, "%-*s", LABEL_COLUMNS, "");
  for (const TpsFigureColumn *column = figures->style->columns; column->title != NULL; column++)
    g_string_append_printf (text, " %10s", column->title);
  if (figures->style->has_units)
    g_string_append_printf (text, " %-7s", "");
  for (guint i = 0; i < figures->limits->len; i++)
    if (get_limit (figures, i)->title != NULL)
      g_string_append_printf (text, " %10s", get_limit (figures, i)->title);
  g_string_append_c (text, '\n');
}

/* Appends the ratios of a main figure to all limits; none to its own system. */
static void
append_ratios (GString *text, const TpsFigures *figures, const Figure *figure)
{
  for (guint i = 0; i < figures->limits->len; i++)
    {
      const TpsFigureLimit *limit = get_limit (figures, i);
      gdouble other = g_str_equal (limit->name, figure->system)
                          ? (gdouble) NAN
                          : tps_figures_get_median (figures, limit->name, figure->row);

      if (limit->title != NULL)
        append_cell (text, get_median (figure) / other, TRUE);
    }
}

/* Calls a function of the style. */
static gchar *
format_name (gchar *(*func) (const gchar *system, const gchar *row), const Figure *figure)
{
  return func != NULL ? func (figure->system, figure->row)
                      : g_strdup_printf ("%s, %s", figure->system, figure->row);
}

static void
append_line (GString *text, const TpsFigures *figures, const Figure *figure)
{
  const TpsFigureStyle *style = figures->style;
  g_autofree gchar *label = format_name (style->label, figure);

  g_string_append_printf (text, "%-*s", LABEL_COLUMNS, label);
  for (const TpsFigureColumn *column = style->columns; column->title != NULL; column++)
    {
      const Figure *cell = find_figure (figures, figure->system, figure->row, column->suffix,
                                        column->unit);

      append_cell (text,
                   cell != NULL ? tps_percentile (cell->samples, column->percent) : (gdouble) NAN,
                   FALSE);
    }
  if (style->has_units)
    g_string_append_printf (text, " %-7s", figure->quantity->unit);
  append_ratios (text, figures, figure);
  g_string_append_c (text, '\n');
}

gchar *
tps_figures_show (const TpsFigures *figures)
{
  GString *text = g_string_new (NULL);

  append_header (text, figures);
  for (guint i = 0; i < figures->all->len; i++)
    if (is_main (get_figure (figures, i)))
      append_line (text, figures, get_figure (figures, i));
  return g_string_free (text, FALSE);
}

/* -- JSON -- */

static void
output_figure (const Figure *figure, const gchar *name, TpsBenchSystem *system)
{
  g_autofree gchar *whole = g_strconcat (name, figure->quantity->suffix, NULL);

  tps_bench_system_add_figure (system, whole, figure->quantity->unit, figure->samples);
}

static void
output_ratios (const TpsFigures *figures, const Figure *figure, const gchar *name,
               TpsBenchOutput *output)
{
  for (guint i = 0; i < figures->limits->len; i++)
    {
      const Figure *other = find_main (figures, get_limit (figures, i)->name, figure->row);
      g_autofree gchar *ratio = g_strdup_printf ("%s / %s", name, get_limit (figures, i)->name);

      if (other != NULL)
        tps_bench_output_add_ratio (output, ratio, get_median (figure), get_median (other),
                                    "higher");
    }
}

static void
output_ours (const TpsFigures *figures, const Figure *figure, TpsBenchOutput *output)
{
  g_autofree gchar *name = format_name (figures->style->name, figure);

  output_figure (figure, name, &output->ours);
  if (is_main (figure) && find_limit (figures, figure->system) == NULL)
    output_ratios (figures, figure, name, output);
}

static void
output_peer (const TpsFigures *figures, const TpsFigureLimit *limit, TpsBenchOutput *output)
{
  TpsBenchSystem *peer = tps_bench_output_add_peer (output, limit->name, limit->version);

  for (guint i = 0; i < figures->all->len; i++)
    if (g_str_equal (get_figure (figures, i)->system, limit->name))
      output_figure (get_figure (figures, i), get_figure (figures, i)->row, peer);
}

void
tps_figures_output (const TpsFigures *figures, TpsBenchOutput *output)
{
  for (guint i = 0; i < figures->all->len; i++)
    {
      const TpsFigureLimit *limit = find_limit (figures, get_figure (figures, i)->system);

      if (limit == NULL || limit->version == NULL)
        output_ours (figures, get_figure (figures, i), output);
    }
  for (guint i = 0; i < figures->limits->len; i++)
    if (get_limit (figures, i)->version != NULL)
      output_peer (figures, get_limit (figures, i), output);
}
