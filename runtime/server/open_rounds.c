/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/open_rounds.h"

#define MAX_NAMED_TRAINERS 100

gchar *
tps_missing_trainers_to_string (guint n_trainers, guint n_missing, TpsHasCome has_come,
                                gconstpointer round)
{
  GString *text = g_string_new (n_missing == 1 ? "trainer " : "trainers ");
  guint n_named = 0;

  for (guint i = 0; i < n_trainers && n_named < MAX_NAMED_TRAINERS; i++)
    if (!has_come (round, i))
      g_string_append_printf (text, n_named++ == 0 ? "%u" : ", %u", i);
  if (n_named < n_missing)
    g_string_append_printf (text, " and %u more", n_missing - n_named);
  return g_string_free (text, FALSE);
}

void
tps_open_round_list_missing (TpsOpenRound *open, guint n_trainers, TpsHasCome has_come,
                             gconstpointer round, guint *n_looks)
{
  guint n_max = MIN (n_trainers - open->n_arrived, TPS_OPEN_ROUND_MAX_MISSING);

  open->n_missing = 0;
  for (guint i = 0; i < n_trainers && open->n_missing<n_max && * n_looks> 0; i++)
    {
      (*n_looks)--;
      if (!has_come (round, i))
        open->missing[open->n_missing++] = (gint32) i;
    }
}
