/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/figures.h"

#include "bench/report/percentile.h"

typedef struct
{
  const gchar *system;
  gchar *row;
  const gchar *unit;
  GArray *samples; /* of gdouble */
} Figure;

struct TpsFigures
{
  TpsFigureNamer name_ours;
  GArray *all;    /* of Figure, in the order in which they first came */
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
  g_free ((gchar *) (gsize) ((TpsFigureLimit *) data)->version);
}

TpsFigures *
tps_figures_new (TpsFigureNamer name_ours)
{
  TpsFigures *figures = g_new0 (TpsFigures, 1);

  figures->name_ours = name_ours;
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

void
tps_figures_add_limit (TpsFigures *figures, const TpsFigureLimit *limit)
{
  TpsFigureLimit added = *limit;

  added.version = g_strdup (limit->version);
  g_array_append_val (figures->limits, added);
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

static const Figure *
find_figure (const TpsFigures *figures, const gchar *system, const gchar *row)
{
  for (guint i = 0; i < figures->all->len; i++)
    if (g_str_equal (get_figure (figures, i)->system, system)
        && g_str_equal (get_figure (figures, i)->row, row))
      return get_figure (figures, i);
  return NULL;
}

/* NULL where the system is none. */
static const TpsFigureLimit *
find_limit (const TpsFigures *figures, const gchar *system)
{
  for (guint i = 0; i < figures->limits->len; i++)
    if (g_str_equal (get_limit (figures, i)->name, system))
      return get_limit (figures, i);
  return NULL;
}

static gboolean
is_ours (const TpsFigures *figures, const Figure *figure)
{
  const TpsFigureLimit *limit = find_limit (figures, figure->system);

  return limit == NULL || limit->version == NULL;
}

void
tps_figures_add (TpsFigures *figures, const gchar *system, const gchar *row, const gchar *unit,
                 gdouble sample)
{
  const Figure *figure = find_figure (figures, system, row);

  if (figure == NULL)
    {
      Figure added = { .system = system,
                       .row = g_strdup (row),
                       .unit = unit,
                       .samples = g_array_new (FALSE, FALSE, sizeof (gdouble)) };

      g_array_append_val (figures->all, added);
      figure = get_figure (figures, figures->all->len - 1);
    }
  g_array_append_val (figure->samples, sample);
}

static gdouble
get_median (const Figure *figure)
{
  return tps_percentile (figure->samples, 50);
}

/* The figure that stands for a limit in the row of one of ours; NULL where the two are not compared. */
static const Figure *
find_other (const TpsFigures *figures, const Figure *figure, const TpsFigureLimit *limit)
{
  return find_limit (figures, figure->system) != NULL
             ? NULL
             : find_figure (figures, limit->name, figure->row);
}

/* -- table -- */

static void
append_figure (GString *text, const TpsFigures *figures, const Figure *figure)
{
  g_autofree gchar *name = figures->name_ours (figure->system, figure->row);

  g_string_append_printf (text, "%-40s %11.4g %11.4g %-8s", name, get_median (figure),
                          tps_percentile (figure->samples, 99), figure->unit);
  for (guint i = 0; i < figures->limits->len; i++)
    {
      const Figure *other = find_other (figures, figure, get_limit (figures, i));

      if (other == NULL)
        g_string_append_printf (text, " %10s", "-");
      else
        g_string_append_printf (text, " %10.3f", get_median (figure) / get_median (other));
    }
  g_string_append_c (text, '\n');
}

gchar *
tps_figures_show (const TpsFigures *figures)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%-40s %11s %11s %-8s", "", "p50", "p99", "");
  for (guint i = 0; i < figures->limits->len; i++)
    g_string_append_printf (text, " %10s", get_limit (figures, i)->title);
  g_string_append_c (text, '\n');
  for (guint i = 0; i < figures->all->len; i++)
    append_figure (text, figures, get_figure (figures, i));
  return g_string_free (text, FALSE);
}

/* -- JSON -- */

static void
output_ours (const TpsFigures *figures, const Figure *figure, TpsBenchOutput *output)
{
  g_autofree gchar *name = figures->name_ours (figure->system, figure->row);

  tps_bench_system_add_figure (&output->ours, name, figure->unit, figure->samples);
  for (guint i = 0; i < figures->limits->len; i++)
    {
      const Figure *other = find_other (figures, figure, get_limit (figures, i));
      g_autofree gchar *ratio = g_strdup_printf ("%s / %s", name, get_limit (figures, i)->name);

      if (other != NULL)
        tps_bench_output_add_ratio (output, ratio, get_median (figure), get_median (other),
                                    "higher");
    }
}

static void
output_peer (const TpsFigures *figures, const TpsFigureLimit *limit, TpsBenchOutput *output)
{
  TpsBenchSystem *peer = tps_bench_output_add_peer (output, limit->name, limit->version);

  for (guint i = 0; i < figures->all->len; i++)
    {
      const Figure *figure = get_figure (figures, i);

      if (g_str_equal (figure->system, limit->name))
        tps_bench_system_add_figure (peer, figure->row, figure->unit, figure->samples);
    }
}

void
tps_figures_output (const TpsFigures *figures, TpsBenchOutput *output)
{
  for (guint i = 0; i < figures->all->len; i++)
    if (is_ours (figures, get_figure (figures, i)))
      output_ours (figures, get_figure (figures, i), output);
  for (guint i = 0; i < figures->limits->len; i++)
    if (get_limit (figures, i)->version != NULL)
      output_peer (figures, get_limit (figures, i), output);
}
