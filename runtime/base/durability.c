/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/durability.h"

#include <string.h>

#define INTERVAL_PREFIX "interval:"
#define MAX_INTERVAL_MS 60000

static const gchar *const names[] = {
  [TPS_DURABILITY_NONE] = "none",
  [TPS_DURABILITY_INTERVAL] = "interval",
  [TPS_DURABILITY_COMMIT] = "commit",
};

const gchar *
tps_durability_name (TpsDurability durability)
{
  return names[durability];
}

gboolean
tps_durability_parse (const gchar *text, TpsDurability *durability, gint64 *interval_ns)
{
  guint64 interval_ms;

  for (TpsDurability known = TPS_DURABILITY_NONE; known <= TPS_DURABILITY_COMMIT; known++)
    if (strcmp (text, names[known]) == 0)
      {
        *durability = known;
        return TRUE;
      }
  if (!g_str_has_prefix (text, INTERVAL_PREFIX)
      || !g_ascii_string_to_unsigned (text + strlen (INTERVAL_PREFIX), 10, 1, MAX_INTERVAL_MS,
                                      &interval_ms, NULL))
    return FALSE;
  *durability = TPS_DURABILITY_INTERVAL;
  *interval_ns = (gint64) interval_ms * 1000000;
  return TRUE;
}
