/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/figures/plot.h"

#include <stdio.h>

#include "bench/report/percentile.h"
#include "runtime/base/error.h"

/* Calls one by one, of the first row's kind: a push, unless something else was asked for. */
static gboolean
is_plotted (const TpsTransferFigures *figures, const TpsTransferRow *row)
{
  return row->op == tps_transfer_figures_get (figures, 0)->row.op && row->n_connections == 1
         && row->n_in_flight == 1;
}

/* "thriftps tcp" of every curve; owned elements. */
static GPtrArray *
list_curves (const TpsTransferFigures *figures)
{
  GPtrArray *curves = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0; is_plotted (figures, &tps_transfer_figures_get (figures, i)->row)
                      && j < tps_transfer_figures_get (figures, i)->results->len;
         j++)
      {
        const TpsTransferSystemSpec *spec =
            tps_transfer_row_results_get (tps_transfer_figures_get (figures, i), j)->spec;
        gchar *curve = g_strdup_printf ("%s %s", spec->name, spec->transport);

        if (g_ptr_array_find_with_equal_func (curves, curve, g_str_equal, NULL))
          g_free (curve);
        else
          g_ptr_array_add (curves, curve);
      }
  return curves;
}

static void
write_points (FILE *out, const TpsTransferFigures *figures, const gchar *curve)
{
  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0; is_plotted (figures, &tps_transfer_figures_get (figures, i)->row)
                      && j < tps_transfer_figures_get (figures, i)->results->len;
         j++)
      {
        const TpsTransferResult *result = tps_transfer_row_results_get (
            tps_transfer_figures_get (figures, i), j);
        g_autofree gchar *name = g_strdup_printf ("%s %s", result->spec->name,
                                                  result->spec->transport);

        if (g_str_equal (name, curve))
          fprintf (out, "%" G_GSIZE_FORMAT " %g\n",
                   tps_transfer_figures_get (figures, i)->row.n_bytes,
                   tps_percentile (result->gb_per_s, 50));
      }
  fprintf (out, "e\n");
}

static void
write_script (FILE *out, const TpsTransferFigures *figures, const gchar *path)
{
  g_autoptr (GPtrArray) curves = list_curves (figures);

  fprintf (out, "set terminal %s size 900,600\nset output '%s'\n",
           g_str_has_suffix (path, ".svg") ? "svg" : "png", path);
  fprintf (
      out,
      "set logscale xy\nset xlabel 'bytes of a %s'\nset ylabel 'GB/s'\n"
      "set key outside below\nset grid\nset xrange [32:536870912]\nset format x '2^{%%L}'\nset logscale x 2\nplot ",
      tps_transfer_op_name (tps_transfer_figures_get (figures, 0)->row.op));
  for (guint i = 0; i < curves->len; i++)
    fprintf (out, "%s'-' with linespoints title '%s'", i > 0 ? ", " : "",
             (gchar *) curves->pdata[i]);
  fprintf (out, "\n");
  for (guint i = 0; i < curves->len; i++)
    write_points (out, figures, curves->pdata[i]);
}

gboolean
tps_transfer_plot (const TpsTransferFigures *figures, const gchar *path, GError **error)
{
  FILE *gnuplot = popen ("gnuplot", "w");
  gint status = -1;

  if (gnuplot != NULL)
    {
      write_script (gnuplot, figures, path);
      status = pclose (gnuplot);
    }
  if (status == 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "--plot: gnuplot could not make %s (package gnuplot-nox)", path);
  return FALSE;
}
