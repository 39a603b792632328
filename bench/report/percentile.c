/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/percentile.h"

#include <math.h>

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
