/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/system/row.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* -- row -- */

static const gchar check[] = "check ";

static const gchar *const op_names[] = { "push", "pull", "echo" };

const gchar *
tps_transfer_op_name (TpsTransferOp op)
{
  return op_names[op];
}

static gboolean
find_op (const gchar *name, TpsTransferOp *op)
{
  for (guint i = 0; i < G_N_ELEMENTS (op_names); i++)
    if (g_strcmp0 (name, op_names[i]) == 0)
      {
        *op = (TpsTransferOp) i;
        return TRUE;
      }
  return FALSE;
}

gboolean
tps_transfer_row_parse (const gchar *line, TpsTransferRow *row)
{
  gchar name[8];

  *row = (TpsTransferRow) { .is_check = g_str_has_prefix (line, check) };
  if (row->is_check)
    line += strlen (check);
  if (sscanf (line, "%7s %" G_GSIZE_FORMAT " %u %u %u", name, &row->n_bytes, &row->n_connections,
              &row->n_in_flight, &row->n_calls)
      != 5)
    return FALSE;
  return find_op (name, &row->op) && row->n_connections > 0 && row->n_in_flight > 0
         && row->n_calls > 0;
}

gchar *
tps_transfer_row_to_line (const TpsTransferRow *row)
{
  return g_strdup_printf ("%s%s %" G_GSIZE_FORMAT " %u %u %u", row->is_check ? check : "",
                          op_names[row->op], row->n_bytes, row->n_connections, row->n_in_flight,
                          row->n_calls);
}

gchar *
tps_transfer_row_to_title (const TpsTransferRow *row)
{
  GString *title = g_string_new (op_names[row->op]);

  if (row->n_bytes >= 1 << 20)
    g_string_append_printf (title, " %" G_GSIZE_FORMAT " MiB", row->n_bytes >> 20);
  else if (row->n_bytes >= 1 << 10)
    g_string_append_printf (title, " %" G_GSIZE_FORMAT " KiB", row->n_bytes >> 10);
  else
    g_string_append_printf (title, " %" G_GSIZE_FORMAT " B", row->n_bytes);
  if (row->n_connections > 1)
    g_string_append_printf (title, " x%u", row->n_connections);
  if (row->n_in_flight > 1)
    g_string_append_printf (title, " /%u", row->n_in_flight);
  return g_string_free (title, FALSE);
}

TpsTransferRow
tps_transfer_row_get_check (const TpsTransferRow *row)
{
  return (TpsTransferRow) { .op = row->op == TPS_TRANSFER_PUSH ? TPS_TRANSFER_ECHO : row->op,
                            .n_bytes = row->n_bytes,
                            .n_connections = row->n_connections,
                            .n_in_flight = 1,
                            .n_calls = row->n_connections,
                            .is_check = TRUE };
}

gdouble
tps_transfer_row_get_bytes (const TpsTransferRow *row)
{
  gdouble n_bytes = (gdouble) row->n_bytes * row->n_calls;

  return row->op == TPS_TRANSFER_ECHO ? 2 * n_bytes : n_bytes;
}

static void
print_answer (gint64 span_ns, const gint64 *ns, guint n_calls)
{
  printf ("ok %.9f", (gdouble) span_ns / 1e9);
  for (guint i = 0; i < n_calls; i++)
    printf (" %" G_GINT64_FORMAT, ns[i]);
  putchar ('\n');
}

gint
tps_transfer_serve_rows (TpsTransferRun run, gpointer user_data)
{
  gchar line[256];

  while (fgets (line, sizeof line, stdin) != NULL)
    {
      g_autoptr (GError) error = NULL;
      g_autofree gint64 *ns = NULL;
      TpsTransferRow row;
      gint64 span_ns = -1;

      if (!tps_transfer_row_parse (line, &row))
        {
          printf ("error not a row: %s", line);
          fflush (stdout);
          continue;
        }
      ns = g_new0 (gint64, row.n_calls);
      span_ns = run (user_data, &row, ns, &error);
      if (span_ns < 0)
        printf ("error %s\n", error->message);
      else
        print_answer (span_ns, ns, row.n_calls);
      fflush (stdout);
    }
  return 0;
}

/* -- pattern -- */

/* An odd number: 2^32 successive words are all different. */
#define STEP 2654435761u

void
tps_transfer_pattern_fill (gpointer data, gsize n_bytes)
{
  guint32 *words = data;

  for (gsize i = 0; i < n_bytes / sizeof *words; i++)
    words[i] = ((guint32) i + 1) * STEP;
}

gboolean
tps_transfer_pattern_matches (gconstpointer data, gsize n_bytes)
{
  const guint32 *words = data;

  for (gsize i = 0; i < n_bytes / sizeof *words; i++)
    if (words[i] != ((guint32) i + 1) * STEP)
      return FALSE;
  return TRUE;
}

TpsBuffer *
tps_transfer_pattern_new (gsize n_bytes)
{
  TpsBuffer *buffer = tps_buffer_new (n_bytes);

  tps_transfer_pattern_fill (tps_buffer_get_data (buffer), n_bytes);
  return buffer;
}

/* -- serve -- */

void
tps_transfer_announce (const gchar *address)
{
  printf ("listening on %s\n", address);
  fflush (stdout);
}

void
tps_transfer_wait_for_end (void)
{
  gchar chunk[64];

  while (read (STDIN_FILENO, chunk, sizeof chunk) > 0)
    continue;
}

gint
tps_transfer_fail (const GError *error)
{
  fprintf (stderr, "transfer: %s\n", error->message);
  return 1;
}
