/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>

#include "bench/all_reduce/rank.h"
#include "runtime/base/error.h"

#define PERIOD 61 /* the period of the data: small integers, whose sums are exact */

static gfloat
get_element (guint rank, gsize i)
{
  return (gfloat) ((i + 7 * rank) % PERIOD);
}

void
tps_all_reduce_fill (gfloat *data, gsize n_elems, guint rank)
{
  for (gsize i = 0; i < n_elems; i++)
    data[i] = get_element (rank, i);
}

gboolean
tps_all_reduce_check (const gfloat *data, gsize n_elems, guint size, GError **error)
{
  for (gsize i = 0; i < n_elems; i++)
    {
      gfloat expected = 0;

      for (guint rank = 0; rank < size; rank++)
        expected += get_element (rank, i);
      if (data[i] == expected)
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "element %" G_GSIZE_FORMAT " of the sum is %g, expected %g", i,
                   (gdouble) data[i], (gdouble) expected);
      return FALSE;
    }
  return TRUE;
}

static void
answer (TpsAllReduceRun run, gpointer user_data, gsize n_bytes, guint n_calls)
{
  g_autoptr (GError) error = NULL;
  gint64 ns = run (user_data, n_bytes / sizeof (gfloat), n_calls, &error);

  if (ns >= 0)
    printf ("ok %.9f\n", (gdouble) ns / 1e9);
  else
    printf ("error %s\n", error->message);
  fflush (stdout);
}

gint
tps_all_reduce_serve (TpsAllReduceRun run, gpointer user_data)
{
  gchar line[256];

  while (fgets (line, sizeof line, stdin) != NULL)
    {
      gchar *at;
      guint64 n_bytes = g_ascii_strtoull (line, &at, 10);
      guint64 n_calls = g_ascii_strtoull (at, NULL, 10);

      answer (run, user_data, n_bytes, (guint) n_calls);
    }
  return 0;
}
