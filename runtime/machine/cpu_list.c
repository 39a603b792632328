/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/cpu_list.h"

static gboolean
parse_number (const gchar *text, guint *number)
{
  guint64 found;

  if (!g_ascii_string_to_unsigned (text, 10, 0, TPS_CPU_LIST_LIMIT - 1, &found, NULL))
    return FALSE;
  *number = (guint) found;
  return TRUE;
}

/* Appends the numbers of "8" or "0-3". Returns FALSE if `text` is invalid. */
static gboolean
append_range (GArray *list, const gchar *text)
{
  g_auto (GStrv) ends = g_strsplit (text, "-", 2);
  guint first, last;

  if (ends[0] == NULL || !parse_number (ends[0], &first)
      || !parse_number (ends[ends[1] != NULL ? 1 : 0], &last) || last < first
      || list->len + (last - first) >= TPS_CPU_LIST_LIMIT)
    return FALSE;
  for (guint number = first; number <= last; number++)
    g_array_append_val (list, number);
  return TRUE;
}

GArray *
tps_cpu_list_parse (const gchar *text)
{
  g_autofree gchar *line = g_strstrip (g_strdup (text));
  g_auto (GStrv) ranges = g_strsplit (line, ",", -1);
  g_autoptr (GArray) list = g_array_new (FALSE, FALSE, sizeof (guint));

  for (gsize i = 0; ranges[i] != NULL; i++)
    if (!append_range (list, ranges[i]))
      return NULL;
  return list->len > 0 ? g_steal_pointer (&list) : NULL;
}
