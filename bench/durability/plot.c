/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>

#include "bench/durability/parts.h"
#include "runtime/base/error.h"

#define SLICE_NS 10000000 /* a slice of time, of which the plot shows the longest call */

static gint64
find_begin (const GArray *calls, gint64 begin_ns)
{
  for (guint i = 0; i < calls->len; i++)
    begin_ns = MIN (begin_ns, g_array_index (calls, TpsDurabilityCall, i).begin_ns);
  return begin_ns;
}

/* Writes a point for each slice of time: the longest call that ended in the slice. */
static void
write_points (FILE *out, const GArray *calls, gint64 begin_ns)
{
  /* in ns; the index is the slice */
  g_autoptr (GArray) longest = g_array_new (FALSE, TRUE, sizeof (gint64));

  for (guint i = 0; i < calls->len; i++)
    {
      const TpsDurabilityCall *call = &g_array_index (calls, TpsDurabilityCall, i);
      guint slice = (guint) ((call->end_ns - begin_ns) / SLICE_NS);

      if (slice >= longest->len)
        g_array_set_size (longest, slice + 1);
      g_array_index (longest, gint64, slice) = MAX (g_array_index (longest, gint64, slice),
                                                    call->end_ns - call->begin_ns);
    }
  for (guint i = 0; i < longest->len; i++)
    if (g_array_index (longest, gint64, i) > 0)
      fprintf (out, "%.3f %.4f\n", (gdouble) i * SLICE_NS / 1e9,
               (gdouble) g_array_index (longest, gint64, i) / 1e6);
  fprintf (out, "e\n");
}

static void
write_span (FILE *out, const gchar *what, const gchar *colour, gint64 from_ns, gint64 to_ns,
            gint64 begin_ns)
{
  gdouble from = (gdouble) (from_ns - begin_ns) / 1e9, to = (gdouble) (to_ns - begin_ns) / 1e9;

  fprintf (out,
           "set object rectangle from %.3f, graph 0 to %.3f, graph 1 fillcolor rgb '%s' "
           "fillstyle solid 0.3 noborder behind\n"
           "set label '%s' at %.3f, graph 0.97 left\n",
           from, to, colour, what, from);
}

static void
write_script (FILE *out, const TpsDurabilityTimeline *timeline, const gchar *path)
{
  gint64 begin_ns = find_begin (timeline->lookups, timeline->snapshot_ns);

  begin_ns = find_begin (timeline->pushes, begin_ns);
  fprintf (out, "set terminal %s size 1000,500\nset output '%s'\n",
           g_str_has_suffix (path, ".svg") ? "svg" : "png", path);
  fprintf (out, "set logscale y\nset xlabel 'seconds'\nset grid\nset key outside below\n"
                "set ylabel 'longest call that ended in 10 ms, in ms'\n");
  write_span (out, "snapshot", "#88bb88", timeline->snapshot_ns, timeline->snapshot_end_ns,
              begin_ns);
  write_span (out, "kill -9, restart", "#cc8888", timeline->kill_ns, timeline->live_ns, begin_ns);
  fprintf (out, "plot '-' with points pointtype 7 pointsize 0.3 title 'pushes', "
                "'-' with points pointtype 7 pointsize 0.3 title 'lookups'\n");
  write_points (out, timeline->pushes, begin_ns);
  write_points (out, timeline->lookups, begin_ns);
}

gboolean
tps_durability_plot (const TpsDurabilityBench *bench, GError **error)
{
  const gchar *path = bench->options->plot;
  FILE *gnuplot = popen ("gnuplot", "w");
  gint status = -1;

  if (gnuplot != NULL)
    {
      write_script (gnuplot, &bench->timeline, path);
      status = pclose (gnuplot);
    }
  if (status == 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "--plot: gnuplot could not make %s (package gnuplot-nox)", path);
  return FALSE;
}
