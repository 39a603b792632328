/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/top/view.h"

#include <math.h>
#include <string.h>

#define ALL_ROWS 1000000
#define N_SECTIONS 3
#define SECTION_HEAD_ROWS 2 /* an empty line and the names of the columns */

/* ---- numbers and names ---------------------------------------------------------------------- */

/* Returns a number of at most four digits, with a prefix and a unit: "812", "81.2 kB", "1.23 GiB".
 * `base` is 1000 or 1024. The caller owns the text. */
static gchar *
scale (gdouble number, gdouble base, const gchar *unit)
{
  const gchar *prefixes = base > 1000 ? " KMGTPE" : " kMGTPE";
  guint i = 0;

  while (fabs (number) >= base * 0.9995 && prefixes[i + 1] != '\0')
    {
      number /= base;
      i++;
    }
  if (i == 0)
    return g_strdup_printf (number == floor (number) ? "%.0f%s%s" : "%.1f%s%s", number,
                            *unit != '\0' ? " " : "", unit);
  return g_strdup_printf ("%.*f%s%c%s%s",
                          number < 9.995   ? 2
                          : number < 99.95 ? 1
                                           : 0,
                          number, *unit != '\0' ? " " : "", prefixes[i], base > 1000 ? "i" : "",
                          unit);
}

static gchar *
to_bytes (gdouble n_bytes)
{
  return scale (n_bytes, 1024, "B");
}

static gchar *
to_rate (gint64 count, gdouble seconds)
{
  return scale (seconds > 0 ? (gdouble) count / seconds : 0, 1000, "");
}

static gchar *
to_ms (gdouble ms)
{
  if (ms < 0)
    return g_strdup ("-");
  return g_strdup_printf ("%.*f", ms < 0.9995 ? 3 : ms < 99.95 ? 2 : 0, ms);
}

static gchar *
to_duration (gdouble seconds)
{
  gint64 s = (gint64) CLAMP (seconds, 0, 1e12);

  if (s >= 86400)
    return g_strdup_printf ("%" G_GINT64_FORMAT "d %02d:%02d", s / 86400, (gint) (s / 3600 % 24),
                            (gint) (s / 60 % 60));
  return g_strdup_printf ("%02d:%02d:%02d", (gint) (s / 3600), (gint) (s / 60 % 60),
                          (gint) (s % 60));
}

/* Replaces all bytes but printable ASCII. Other characters could move the cursor, or occupy no
 * column or two columns. */
static gchar *
to_ascii (const gchar *text)
{
  gchar *ascii = g_strdup (text);

  for (gchar *at = ascii; *at != '\0'; at++)
    if (!g_ascii_isprint (*at))
      *at = '?';
  return ascii;
}

/* ---- lines ---------------------------------------------------------------------------------- */

typedef struct
{
  GPtrArray *lines;
  guint n_columns;
} Page;

/* Adds a line, shortened to the width of the page. Takes ownership of `line`. */
static void
add_line (Page *page, gchar *line)
{
  gsize n_bytes = strlen (line);

  while (n_bytes > 0 && (line[n_bytes - 1] == ' ' || n_bytes > page->n_columns))
    line[--n_bytes] = '\0';
  g_ptr_array_add (page->lines, line);
}

static void
add_first (Page *page, const TpsFigures *figures)
{
  JsonObject *status = figures->status;
  g_autofree gchar *name = to_ascii (tps_json_text (status, "name"));
  g_autofree gchar *version = to_ascii (tps_json_text (status, "version"));
  g_autofree gchar *state = to_ascii (tps_json_text (status, "state"));
  g_autofree gchar *up = to_duration (tps_json_number (status, "time_s")
                                      - tps_json_number (status, "start_time_s"));

  if (status == NULL)
    add_line (page, g_strdup ("thriftps_top"));
  else
    add_line (page, g_strdup_printf ("%s  ThriftPS %s  %s  up %s", name, version, state, up));
}

static void
add_totals (Page *page, const TpsFigures *figures)
{
  JsonObject *totals = tps_json_object (figures->status, "totals");
  gdouble s = figures->seconds;
  g_autofree gchar *calls = to_rate (figures->calls, s);
  g_autofree gchar *failures = to_rate (figures->failures, s);
  g_autofree gchar *received = to_bytes (s > 0 ? (gdouble) figures->received_bytes / s : 0);
  g_autofree gchar *sent = to_bytes (s > 0 ? (gdouble) figures->sent_bytes / s : 0);

  add_line (page, g_strdup_printf ("calls %s/s  failed %s/s  in %s/s  out %s/s", calls, failures,
                                   received, sent));
  add_line (page, g_strdup_printf ("connections %.0f of %.0f, %.0f refused  calls in flight %.0f",
                                   tps_json_number (totals, "connections"),
                                   tps_json_number (totals, "max_connections"),
                                   tps_json_number (totals, "refused"),
                                   tps_json_number (totals, "in_flight")));
}

static void
add_work (Page *page, const TpsFigures *figures)
{
  JsonObject *workers = tps_json_object (figures->status, "workers");
  JsonObject *rounds = tps_json_object (figures->sample, "rounds");

  add_line (page, g_strdup_printf ("workers %.0f of %.0f busy, %.0f jobs queued",
                                   tps_json_number (workers, "running"),
                                   tps_json_number (workers, "threads"),
                                   tps_json_number (workers, "queued")
                                       + tps_json_number (workers, "queued_long")));
  if (rounds != NULL)
    add_line (page, g_strdup_printf (
                        "rounds %.0f open, %.0f calls waiting, oldest %.1f s  model "
                        "version %.0f",
                        tps_json_number (rounds, "open"), tps_json_number (rounds, "waiting"),
                        tps_json_number (rounds, "oldest_s"), tps_json_number (rounds, "version")));
}

static void
add_log (Page *page, const TpsFigures *figures)
{
  JsonObject *log = tps_json_object (figures->status, "durability");
  JsonObject *snapshot = tps_json_object (log, "snapshot");
  g_autofree gchar *phase = to_ascii (tps_json_text (log, "phase"));
  g_autofree gchar *bytes = to_bytes (tps_json_number (log, "log_bytes"));
  g_autofree gchar *newest = NULL;

  if (log == NULL)
    return;
  newest = snapshot != NULL
               ? g_strdup_printf ("  snapshot at LSN %.0f", tps_json_number (snapshot, "lsn"))
               : g_strdup ("");
  add_line (page,
            g_strdup_printf ("log %s  LSN %.0f of %.0f  %s%s", phase, tps_json_number (log, "lsn"),
                             tps_json_number (log, "end_lsn"), bytes, newest));
}

/* ---- sections ------------------------------------------------------------------------------- */

/* Names get the columns that are left by the numbers, which have 11 columns each. */
static gint
get_name_columns (const Page *page, guint n_numbers)
{
  return (gint) MIN (page->n_columns - n_numbers * 11, 60);
}

static void
add_row (Page *page, const gchar *name, const gchar *const *numbers, guint n_numbers)
{
  GString *line = g_string_new (NULL);
  g_autofree gchar *ascii = to_ascii (name);
  gint n = get_name_columns (page, n_numbers);

  g_string_append_printf (line, "%-*.*s", n, n, ascii);
  for (guint i = 0; i < n_numbers; i++)
    g_string_append_printf (line, " %10s", numbers[i]);
  add_line (page, g_string_free (line, FALSE));
}

static guint
count_methods (const TpsFigures *figures)
{
  return figures->methods->len;
}

static void
add_method (Page *page, const TpsFigures *figures, guint index)
{
  const TpsMethodFigures *method = g_ptr_array_index (figures->methods, index);
  g_autofree gchar *calls = to_rate (method->calls, figures->seconds);
  g_autofree gchar *failures = to_rate (method->failures, figures->seconds);
  g_autofree gchar *p50 = to_ms (method->p50_ms);
  g_autofree gchar *p99 = to_ms (method->p99_ms);
  const gchar *numbers[] = { calls, failures, p50, p99 };

  add_row (page, method->name, numbers, G_N_ELEMENTS (numbers));
}

static guint
count_tables (const TpsFigures *figures)
{
  return figures->tables->len;
}

static void
add_table (Page *page, const TpsFigures *figures, guint index)
{
  const TpsTableFigures *table = g_ptr_array_index (figures->tables, index);
  g_autofree gchar *lookups = to_rate (table->lookups, figures->seconds);
  g_autofree gchar *lookup_rows = to_rate (table->lookup_rows, figures->seconds);
  g_autofree gchar *pushes = to_rate (table->pushes, figures->seconds);
  g_autofree gchar *push_rows = to_rate (table->push_rows, figures->seconds);
  const gchar *numbers[] = { lookups, lookup_rows, pushes, push_rows };

  add_row (page, table->name, numbers, G_N_ELEMENTS (numbers));
}

static guint
count_budgets (const TpsFigures *figures)
{
  JsonArray *budgets = tps_json_array (figures->status, "budgets");

  return budgets != NULL ? json_array_get_length (budgets) : 0;
}

static void
add_budget (Page *page, const TpsFigures *figures, guint index)
{
  JsonObject *budget = tps_json_element (tps_json_array (figures->status, "budgets"), index);
  gdouble max = tps_json_number (budget, "max_bytes");
  g_autofree gchar *held = to_bytes (tps_json_number (budget, "held_bytes"));
  g_autofree gchar *peak = to_bytes (tps_json_number (budget, "peak_bytes"));
  g_autofree gchar *limit = max > 0 ? to_bytes (max) : g_strdup ("-");
  g_autofree gchar *part = max > 0 ? g_strdup_printf (
                               "%.0f%%", 100 * tps_json_number (budget, "held_bytes") / max)
                                   : g_strdup ("-");
  const gchar *numbers[] = { held, peak, limit, part };

  add_row (page, tps_json_text (budget, "name"), numbers, G_N_ELEMENTS (numbers));
}

typedef struct
{
  const gchar *name;
  const gchar *numbers[4];
  guint (*count) (const TpsFigures *figures);
  void (*add) (Page *page, const TpsFigures *figures, guint index);
} Section;

static const Section sections[N_SECTIONS] = {
  { "METHOD", { "CALLS/s", "FAILED/s", "P50 ms", "P99 ms" }, count_methods, add_method },
  { "TABLE", { "LOOKUPS/s", "ROWS/s", "PUSHES/s", "ROWS/s" }, count_tables, add_table },
  { "MEMORY", { "HELD", "PEAK", "LIMIT", "PART" }, count_budgets, add_budget },
};

/* Each section gets an equal share of the rows. If a section needs fewer, the others share the
 * rest. */
static void
share_rows (const TpsFigures *figures, guint n_rows, guint shares[N_SECTIONS])
{
  guint n_left = n_rows;

  memset (shares, 0, N_SECTIONS * sizeof *shares);
  for (gboolean given = TRUE; given && n_left > 0;)
    {
      given = FALSE;
      for (guint i = 0; i < N_SECTIONS && n_left > 0; i++)
        if (shares[i] < sections[i].count (figures))
          {
            shares[i]++;
            n_left--;
            given = TRUE;
          }
    }
}

static void
add_sections (Page *page, const TpsFigures *figures, guint n_rows)
{
  guint shares[N_SECTIONS];
  guint n_heads = 0;

  for (guint i = 0; i < N_SECTIONS; i++)
    if (sections[i].count (figures) > 0)
      n_heads += SECTION_HEAD_ROWS;
  share_rows (figures, n_rows > n_heads ? n_rows - n_heads : 0, shares);
  for (guint i = 0; i < N_SECTIONS; i++)
    {
      if (shares[i] == 0)
        continue;
      add_line (page, g_strdup (""));
      add_row (page, sections[i].name, sections[i].numbers, G_N_ELEMENTS (sections[i].numbers));
      for (guint j = 0; j < shares[i]; j++)
        sections[i].add (page, figures, j);
    }
}

GStrv
tps_view_render (const TpsFigures *figures, const gchar *message, const TpsViewSize *size)
{
  Page page = { .lines = g_ptr_array_new_with_free_func (g_free),
                .n_columns = MAX (size->n_columns, TPS_VIEW_MIN_COLUMNS) };
  guint n_rows = size->n_rows > 0 ? size->n_rows : ALL_ROWS;

  add_first (&page, figures);
  if (message != NULL)
    add_line (&page, to_ascii (message));
  add_totals (&page, figures);
  add_work (&page, figures);
  add_log (&page, figures);
  if (page.lines->len < n_rows)
    add_sections (&page, figures, n_rows - page.lines->len);
  if (page.lines->len > n_rows)
    g_ptr_array_set_size (page.lines, (gint) n_rows);
  g_ptr_array_set_free_func (page.lines, NULL); /* the caller gets the lines */
  g_ptr_array_add (page.lines, NULL);
  return (GStrv) g_ptr_array_free (page.lines, FALSE);
}
