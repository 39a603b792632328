/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/figures/plot.h"

#include <math.h>
#include <stdio.h>

#include "runtime/base/error.h"

/* Returns the GB/s of a row on a system; NAN if the row is not plotted. Plotted are the rows with
 * calls one by one, of the kind of the first row. */
static gdouble
get_point (const TpsFigures *figures, const TpsTransferSystemSpec *spec, const GArray *rows,
           guint i)
{
  const TpsTransferRow *row = &g_array_index (rows, TpsTransferRow, i);
  g_autofree gchar *name = tps_transfer_figures_name (spec, row);

  if (row->op != g_array_index (rows, TpsTransferRow, 0).op || row->n_connections != 1
      || row->n_in_flight != 1)
    return (gdouble) NAN;
  return tps_figures_get_median (figures, spec->name, name);
}

static void
write_points (FILE *out, const TpsFigures *figures, const TpsTransferSystemSpec *spec,
              const GArray *rows)
{
  for (guint i = 0; i < rows->len; i++)
    {
      gdouble point = get_point (figures, spec, rows, i);

      if (!isnan (point))
        fprintf (out, "%" G_GSIZE_FORMAT " %g\n", g_array_index (rows, TpsTransferRow, i).n_bytes,
                 point);
    }
  fprintf (out, "e\n");
}

static void
write_script (FILE *out, const TpsFigures *figures, const GPtrArray *specs, const GArray *rows,
              const gchar *path)
{
  fprintf (out, "set terminal %s size 900,600\nset output '%s'\n",
           g_str_has_suffix (path, ".svg") ? "svg" : "png", path);
  fprintf (out,
           "set logscale xy\nset xlabel 'bytes of a %s'\nset ylabel 'GB/s'\n"
           "set key outside below\nset grid\nset xrange [32:536870912]\n"
           "set format x '2^{%%L}'\nset logscale x 2\nplot ",
           tps_transfer_op_name (g_array_index (rows, TpsTransferRow, 0).op));
  for (guint i = 0; i < specs->len; i++)
    {
      const TpsTransferSystemSpec *spec = specs->pdata[i];

      fprintf (out, "%s'-' with linespoints title '%s %s'", i > 0 ? ", " : "", spec->name,
               spec->transport);
    }
  fprintf (out, "\n");
  for (guint i = 0; i < specs->len; i++)
    write_points (out, figures, specs->pdata[i], rows);
}

gboolean
tps_transfer_plot (const TpsFigures *figures, const GPtrArray *specs, const GArray *rows,
                   const gchar *path, GError **error)
{
  FILE *gnuplot = popen ("gnuplot", "w");
  gint status = -1;

  if (gnuplot != NULL)
    {
      write_script (gnuplot, figures, specs, rows, path);
      status = pclose (gnuplot);
    }
  if (status == 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "--plot: gnuplot could not make %s (package gnuplot-nox)", path);
  return FALSE;
}
