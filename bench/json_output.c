/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/json_output.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/version.h"

static const gchar *const kinds[] = { "trainer", "server" };

static gchar *
read_cpu_model (void)
{
  g_autofree gchar *text = NULL;
  const gchar *line;

  if (!g_file_get_contents ("/proc/cpuinfo", &text, NULL, NULL))
    return g_strdup ("unknown CPU");
  line = strstr (text, "model name");
  line = line != NULL ? strchr (line, ':') : NULL;
  if (line == NULL)
    return g_strdup ("unknown CPU");
  return g_strstrip (g_strndup (line + 1, strcspn (line, "\n") - 1));
}

static gdouble
memory_bytes (void)
{
  return (gdouble) sysconf (_SC_PHYS_PAGES) * (gdouble) sysconf (_SC_PAGESIZE);
}

gchar *
tps_bench_describe_host (void)
{
  g_autofree gchar *cpu = read_cpu_model ();
  struct utsname kernel;

  uname (&kernel);
  return g_strdup_printf ("%s, %u cores, %.1f GiB, %s %s", cpu, g_get_num_processors (),
                          memory_bytes () / (1 << 30), kernel.sysname, kernel.release);
}

static void
add_string (JsonBuilder *json, const gchar *name, const gchar *value)
{
  json_builder_set_member_name (json, name);
  json_builder_add_string_value (json, value);
}

/* JSON knows no NAN: what is not a number is null. */
static void
add_double (JsonBuilder *json, const gchar *name, gdouble value)
{
  json_builder_set_member_name (json, name);
  if (isfinite (value))
    json_builder_add_double_value (json, value);
  else
    json_builder_add_null_value (json);
}

static void
add_host (JsonBuilder *json)
{
  g_autofree gchar *cpu = read_cpu_model ();
  struct utsname kernel;

  uname (&kernel);
  json_builder_set_member_name (json, "host");
  json_builder_begin_object (json);
  add_string (json, "cpu", cpu);
  add_double (json, "cores", g_get_num_processors ());
  add_double (json, "memory_bytes", memory_bytes ());
  add_string (json, "kernel", kernel.release);
  add_string (json, "machine", kernel.machine);
  json_builder_end_object (json);
}

static void
add_flags (JsonBuilder *json, GPtrArray *flags)
{
  json_builder_set_member_name (json, "flags");
  json_builder_begin_object (json);
  for (guint i = 0; i < flags->len; i++)
    {
      g_auto (GStrv) parts = g_strsplit (flags->pdata[i], "=", 2);

      add_string (json, parts[0], parts[1]);
    }
  json_builder_end_object (json);
}

static void
add_figure (JsonBuilder *json, const TpsBenchSeries *series)
{
  const gdouble *samples_ms = (const gdouble *) (const void *) series->samples_ms->data;
  g_autoptr (TpsMetricSummary)
      summary = tps_metric_summary_new ("", series->name, samples_ms, series->samples_ms->len);
  g_autofree gchar *title = tps_bench_series_get_title (series);

  json_builder_begin_object (json);
  add_string (json, "name", title);
  add_string (json, "unit", "ms");
  json_builder_set_member_name (json, "n");
  json_builder_add_int_value (json, summary->count);
  add_double (json, "p50", summary->p50_ms);
  add_double (json, "p95", summary->p95_ms);
  add_double (json, "p99", summary->p99_ms);
  add_double (json, "min", summary->min_ms);
  add_double (json, "max", summary->max_ms);
  add_double (json, "mean", summary->mean_ms);
  json_builder_set_member_name (json, "samples");
  json_builder_begin_array (json);
  for (guint i = 0; i < series->samples_ms->len; i++)
    json_builder_add_double_value (json, samples_ms[i]);
  json_builder_end_array (json);
  json_builder_end_object (json);
}

static void
add_figures_of (JsonBuilder *json, TpsBenchResults *results, const gchar *kind, gint rank)
{
  g_autoptr (GPtrArray) rows = tps_bench_results_get_series (results, kind, rank);

  for (guint i = 0; i < rows->len; i++)
    add_figure (json, rows->pdata[i]);
}

static void
add_figures (JsonBuilder *json, TpsBenchResults *results)
{
  json_builder_set_member_name (json, "figures");
  json_builder_begin_array (json);
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (GArray) ranks = tps_bench_results_get_ranks (results, kinds[k]);

      for (guint i = 0; i < ranks->len; i++)
        add_figures_of (json, results, kinds[k], g_array_index (ranks, gint, i));
      add_figures_of (json, results, kinds[k], -1);
    }
  json_builder_end_array (json);
}

static void
add_peers (JsonBuilder *json, const TpsBenchOutput *output)
{
  json_builder_set_member_name (json, "peers");
  json_builder_begin_array (json);
  if (output->peer != NULL)
    {
      json_builder_begin_object (json);
      add_string (json, "name", output->peer_name);
      add_string (json, "version", output->peer_version);
      add_figures (json, output->peer);
      json_builder_end_object (json);
    }
  json_builder_end_array (json);
}

static void
add_ratio (JsonBuilder *json, const TpsBenchSeries *ours, const TpsBenchSeries *peer)
{
  g_autofree gchar *title = tps_bench_series_get_title (ours);
  gdouble mine = tps_bench_series_get_median (ours), theirs = tps_bench_series_get_median (peer);

  json_builder_begin_object (json);
  add_string (json, "name", title);
  add_double (json, "ours", mine);
  add_double (json, "peer", theirs);
  add_double (json, "ratio", mine / theirs);
  add_string (json, "better", "lower");
  json_builder_end_object (json);
}

static void
add_ratios (JsonBuilder *json, const TpsBenchOutput *output)
{
  json_builder_set_member_name (json, "ratios");
  json_builder_begin_array (json);
  for (guint k = 0; k < G_N_ELEMENTS (kinds) && output->peer != NULL; k++)
    {
      g_autoptr (GPtrArray) rows = tps_bench_results_get_series (output->ours, kinds[k], -1);

      for (guint i = 0; i < rows->len; i++)
        {
          TpsBenchSeries *mine = rows->pdata[i];
          TpsBenchSeries *theirs = tps_bench_results_find (output->peer, kinds[k], -1, mine->name);

          if (theirs != NULL)
            add_ratio (json, mine, theirs);
        }
    }
  json_builder_end_array (json);
}

gboolean
tps_bench_json_write (const TpsBenchOutput *output, const gchar *path, GError **error)
{
  g_autoptr (JsonBuilder) json = json_builder_new ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (json);
  json_builder_set_member_name (json, "schema");
  json_builder_add_int_value (json, 1);
  add_string (json, "benchmark", output->benchmark);
  add_string (json, "version", TPS_VERSION);
  add_host (json);
  add_flags (json, output->flags);
  add_figures (json, output->ours);
  add_peers (json, output);
  add_ratios (json, output);
  json_builder_end_object (json);
  root = json_builder_get_root (json);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  json_generator_set_indent (generator, 1);
  return json_generator_to_file (generator, path, error);
}
