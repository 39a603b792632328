/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/json_output.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/machine/machine.h"
#include "runtime/base/metrics.h"
#include "runtime/base/error.h"

static void
figure_clear (gpointer data)
{
  TpsBenchFigure *figure = data;

  g_free (figure->name);
  g_array_unref (figure->samples);
}

static void
system_init (TpsBenchSystem *system, const gchar *name, const gchar *version)
{
  *system = (TpsBenchSystem) { .name = g_strdup (name), .version = g_strdup (version) };
  system->figures = g_array_new (FALSE, FALSE, sizeof (TpsBenchFigure));
  g_array_set_clear_func (system->figures, figure_clear);
}

static void
system_clear (gpointer data)
{
  TpsBenchSystem *system = data;

  g_free (system->name);
  g_free (system->version);
  g_array_unref (system->figures);
}

static void
ratio_clear (gpointer data)
{
  g_free (((TpsBenchRatio *) data)->name);
}

void
tps_bench_output_init (TpsBenchOutput *output, const gchar *benchmark, GPtrArray *flags)
{
  *output = (TpsBenchOutput) { .benchmark = benchmark, .flags = flags };
  system_init (&output->ours, "thriftps", TPS_VERSION);
  output->peers = g_array_new (FALSE, FALSE, sizeof (TpsBenchSystem));
  g_array_set_clear_func (output->peers, system_clear);
  output->ratios = g_array_new (FALSE, FALSE, sizeof (TpsBenchRatio));
  g_array_set_clear_func (output->ratios, ratio_clear);
  output->facts = g_ptr_array_new_with_free_func (g_free);
}

void
tps_bench_output_clear (TpsBenchOutput *output)
{
  system_clear (&output->ours);
  g_array_unref (output->peers);
  g_array_unref (output->ratios);
  g_ptr_array_unref (output->facts);
}

TpsBenchSystem *
tps_bench_output_add_peer (TpsBenchOutput *output, const gchar *name, const gchar *version)
{
  TpsBenchSystem peer;

  system_init (&peer, name, version);
  g_array_append_val (output->peers, peer);
  return &g_array_index (output->peers, TpsBenchSystem, output->peers->len - 1);
}

void
tps_bench_system_add_figure (TpsBenchSystem *system, const gchar *name, const gchar *unit,
                             GArray *samples)
{
  TpsBenchFigure figure = { .name = g_strdup (name),
                            .unit = unit,
                            .samples = g_array_ref (samples) };

  g_array_append_val (system->figures, figure);
}

void
tps_bench_output_add_ratio (TpsBenchOutput *output, const gchar *name, gdouble ours, gdouble peer,
                            const gchar *better)
{
  TpsBenchRatio ratio = { .name = g_strdup (name), .ours = ours, .peer = peer, .better = better };

  g_array_append_val (output->ratios, ratio);
}

void
tps_bench_output_add_fact (TpsBenchOutput *output, const gchar *name, const gchar *value)
{
  g_ptr_array_add (output->facts, g_strdup (name));
  g_ptr_array_add (output->facts, g_strdup (value));
}

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
  return g_strdup_printf ("%s, %u cores, %.1f GiB, %s %s", cpu, tps_cores_count (),
                          memory_bytes () / (1 << 30), kernel.sysname, kernel.release);
}

guint64
tps_bench_get_available_bytes (void)
{
  static const gchar key[] = "MemAvailable:";
  g_autofree gchar *text = NULL;
  const gchar *found;

  if (!g_file_get_contents ("/proc/meminfo", &text, NULL, NULL)
      || (found = strstr (text, key)) == NULL)
    return G_MAXUINT64;
  return g_ascii_strtoull (found + sizeof key - 1, NULL, 10) * 1024;
}

static void
add_string (JsonBuilder *json, const gchar *name, const gchar *value)
{
  json_builder_set_member_name (json, name);
  json_builder_add_string_value (json, value);
}

/* JSON has no NAN and no infinity, so both are written as null. */
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
  add_double (json, "cores", tps_cores_count ());
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
add_facts (JsonBuilder *json, GPtrArray *facts)
{
  json_builder_set_member_name (json, "facts");
  json_builder_begin_object (json);
  for (guint i = 0; i + 1 < facts->len; i += 2)
    add_string (json, facts->pdata[i], facts->pdata[i + 1]);
  json_builder_end_object (json);
}

static void
add_figure (JsonBuilder *json, const TpsBenchFigure *figure)
{
  const gdouble *samples = (const gdouble *) (const void *) figure->samples->data;
  g_autoptr (TpsMetricSummary)
      summary = tps_metric_summary_new ("", figure->name, samples, figure->samples->len);

  json_builder_begin_object (json);
  add_string (json, "name", figure->name);
  add_string (json, "unit", figure->unit);
  json_builder_set_member_name (json, "n");
  json_builder_add_int_value (json, summary->count);
  /* The fields of the summary are named after milliseconds, but its arithmetic has no unit. */
  add_double (json, "p50", summary->p50_ms);
  add_double (json, "p95", summary->p95_ms);
  add_double (json, "p99", summary->p99_ms);
  add_double (json, "min", summary->min_ms);
  add_double (json, "max", summary->max_ms);
  add_double (json, "mean", summary->mean_ms);
  json_builder_set_member_name (json, "samples");
  json_builder_begin_array (json);
  for (guint i = 0; i < figure->samples->len; i++)
    json_builder_add_double_value (json, samples[i]);
  json_builder_end_array (json);
  json_builder_end_object (json);
}

static void
add_figures (JsonBuilder *json, const TpsBenchSystem *system)
{
  json_builder_set_member_name (json, "figures");
  json_builder_begin_array (json);
  for (guint i = 0; i < system->figures->len; i++)
    add_figure (json, &g_array_index (system->figures, TpsBenchFigure, i));
  json_builder_end_array (json);
}

static void
add_peers (JsonBuilder *json, const TpsBenchOutput *output)
{
  json_builder_set_member_name (json, "peers");
  json_builder_begin_array (json);
  for (guint i = 0; i < output->peers->len; i++)
    {
      const TpsBenchSystem *peer = &g_array_index (output->peers, TpsBenchSystem, i);

      json_builder_begin_object (json);
      add_string (json, "name", peer->name);
      add_string (json, "version", peer->version);
      add_figures (json, peer);
      json_builder_end_object (json);
    }
  json_builder_end_array (json);
}

static void
add_ratios (JsonBuilder *json, const TpsBenchOutput *output)
{
  json_builder_set_member_name (json, "ratios");
  json_builder_begin_array (json);
  for (guint i = 0; i < output->ratios->len; i++)
    {
      const TpsBenchRatio *ratio = &g_array_index (output->ratios, TpsBenchRatio, i);

      json_builder_begin_object (json);
      add_string (json, "name", ratio->name);
      add_double (json, "ours", ratio->ours);
      add_double (json, "peer", ratio->peer);
      add_double (json, "ratio", ratio->ours / ratio->peer);
      add_string (json, "better", ratio->better);
      json_builder_end_object (json);
    }
  json_builder_end_array (json);
}

gboolean
tps_bench_output_write_json (const TpsBenchOutput *output, const gchar *path, GError **error)
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
  add_figures (json, &output->ours);
  add_peers (json, output);
  add_ratios (json, output);
  if (output->facts->len > 0)
    add_facts (json, output->facts);
  json_builder_end_object (json);
  root = json_builder_get_root (json);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  json_generator_set_indent (generator, 1);
  return json_generator_to_file (generator, path, error);
}

/* -- percentiles -- */

static gint
compare_doubles (gconstpointer a, gconstpointer b)
{
  gdouble x = *(const gdouble *) a, y = *(const gdouble *) b;

  return (x > y) - (x < y);
}

static gdouble
get (const GArray *values, guint i)
{
  return g_array_index (values, gdouble, i);
}

gdouble
tps_percentile (const GArray *values, gdouble percent)
{
  g_autoptr (GArray) sorted = g_array_new (FALSE, FALSE, sizeof (gdouble));
  gdouble place = percent / 100 * ((gdouble) values->len - 1);
  guint below;

  if (values->len == 0)
    return (gdouble) NAN;
  below = (guint) place;
  g_array_append_vals (sorted, values->data, values->len);
  g_array_sort (sorted, compare_doubles);
  if (below + 1 == sorted->len)
    return get (sorted, below);
  return get (sorted, below) + (place - below) * (get (sorted, below + 1) - get (sorted, below));
}
