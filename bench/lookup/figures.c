/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/figures.h"

#include "runtime/base/metrics.h"

typedef struct
{
  const gchar *system;
  gchar *title;
  const gchar *unit;
  GArray *samples; /* of gdouble */
} Figure;

static void
figure_clear (gpointer data)
{
  Figure *figure = data;

  g_free (figure->title);
  g_array_unref (figure->samples);
}

void
tps_lookup_figures_init (TpsLookupFigures *figures)
{
  *figures = (TpsLookupFigures) { .all = g_array_new (FALSE, FALSE, sizeof (Figure)) };
  g_array_set_clear_func (figures->all, figure_clear);
}

void
tps_lookup_figures_clear (TpsLookupFigures *figures)
{
  g_clear_pointer (&figures->all, g_array_unref);
  g_clear_pointer (&figures->peer_version, g_free);
}

static Figure *
get_figure (const TpsLookupFigures *figures, guint i)
{
  return &g_array_index (figures->all, Figure, i);
}

static Figure *
find_figure (const TpsLookupFigures *figures, const gchar *system, const gchar *title)
{
  for (guint i = 0; i < figures->all->len; i++)
    if (g_str_equal (get_figure (figures, i)->system, system)
        && g_str_equal (get_figure (figures, i)->title, title))
      return get_figure (figures, i);
  return NULL;
}

void
tps_lookup_figures_add (TpsLookupFigures *figures, const gchar *system, const gchar *title,
                        const gchar *unit, gdouble sample)
{
  Figure *figure = find_figure (figures, system, title);

  if (figure == NULL)
    {
      Figure added = { .system = system,
                       .title = g_strdup (title),
                       .unit = unit,
                       .samples = g_array_new (FALSE, FALSE, sizeof (gdouble)) };

      g_array_append_val (figures->all, added);
      figure = get_figure (figures, figures->all->len - 1);
    }
  g_array_append_val (figure->samples, sample);
}

static TpsMetricSummary *
summarise (const Figure *figure)
{
  return tps_metric_summary_new ("", figure->title,
                                 (const gdouble *) (gconstpointer) figure->samples->data,
                                 figure->samples->len);
}

/* The summary's names say milliseconds; its arithmetic knows no unit. */
static gdouble
median (const Figure *figure)
{
  g_autoptr (TpsMetricSummary) summary = summarise (figure);

  return summary->p50_ms;
}

static gboolean
is_ours (const Figure *figure)
{
  return !g_str_equal (figure->system, TPS_LOOKUP_LIMIT)
         && !g_str_equal (figure->system, TPS_LOOKUP_PEER);
}

/* -- table -- */

static void
append_ratio (GString *text, const Figure *figure, const Figure *other)
{
  if (other == NULL || other == figure)
    g_string_append_printf (text, " %9s", "-");
  else
    g_string_append_printf (text, " %9.3f", median (figure) / median (other));
}

gchar *
tps_lookup_figures_show (const TpsLookupFigures *figures)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%-36s %11s %11s %-10s %9s %9s\n", "", "p50", "p99", "",
                          "of gather", "of torch");
  for (guint i = 0; i < figures->all->len; i++)
    {
      const Figure *figure = get_figure (figures, i);
      g_autofree gchar *name = g_strdup_printf ("%s, %s", figure->system, figure->title);
      g_autoptr (TpsMetricSummary) summary = summarise (figure);

      g_string_append_printf (text, "%-36s %11.4g %11.4g %-10s", name, summary->p50_ms,
                              summary->p99_ms, figure->unit);
      append_ratio (text, figure, find_figure (figures, TPS_LOOKUP_LIMIT, figure->title));
      append_ratio (text, figure, find_figure (figures, TPS_LOOKUP_PEER, figure->title));
      g_string_append_c (text, '\n');
    }
  return g_string_free (text, FALSE);
}

/* -- JSON -- */

static void
add_ratio (const Figure *figure, const Figure *other, const gchar *name, TpsBenchOutput *output)
{
  g_autofree gchar *ratio = NULL;

  if (other == NULL)
    return;
  ratio = g_strdup_printf ("%s / %s", name, other->system);
  tps_bench_output_add_ratio (output, ratio, median (figure), median (other), "higher");
}

static void
output_ours (const TpsLookupFigures *figures, const Figure *figure, TpsBenchOutput *output)
{
  g_autofree gchar *name = g_strdup_printf ("%s, %s", figure->system, figure->title);

  tps_bench_system_add_figure (&output->ours, name, figure->unit, figure->samples);
  add_ratio (figure, find_figure (figures, TPS_LOOKUP_LIMIT, figure->title), name, output);
  add_ratio (figure, find_figure (figures, TPS_LOOKUP_PEER, figure->title), name, output);
}

static void
output_peer (const TpsLookupFigures *figures, const gchar *name, const gchar *version,
             TpsBenchOutput *output)
{
  TpsBenchSystem *peer = tps_bench_output_add_peer (output, name, version);

  for (guint i = 0; i < figures->all->len; i++)
    if (g_str_equal (get_figure (figures, i)->system, name))
      tps_bench_system_add_figure (peer, get_figure (figures, i)->title,
                                   get_figure (figures, i)->unit, get_figure (figures, i)->samples);
}

void
tps_lookup_figures_output (const TpsLookupFigures *figures, TpsBenchOutput *output)
{
  for (guint i = 0; i < figures->all->len; i++)
    if (is_ours (get_figure (figures, i)))
      output_ours (figures, get_figure (figures, i), output);
  output_peer (figures, TPS_LOOKUP_LIMIT, "rows added up in the order of the ids", output);
  if (figures->peer_version != NULL)
    output_peer (figures, TPS_LOOKUP_PEER, figures->peer_version, output);
}
