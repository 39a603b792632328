/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/layout_check.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"

static void
on_gathered (gpointer user_data, const GError *error)
{
  tps_outcome_set (user_data, error);
}

/* Blocks, at most for the group's timeout. */
static gboolean
gather_and_wait (TpsProcessGroup *group, gconstpointer data, gsize n_bytes, gsize *counts,
                 TpsBuffer **gathered, GError **error)
{
  TpsOutcome wait;

  tps_outcome_init (&wait);
  group->ops->all_gather_bytes (group, data, n_bytes, counts, gathered, on_gathered, &wait);
  return tps_outcome_wait (&wait, error);
}

/* Returns the facts as text, owned by the caller. The last byte is the kind of memory, "d" (device)
 * or "h" (host), which may differ between ranks. */
static gchar *
write_facts (const TpsLayoutFacts *facts)
{
  g_autofree gchar *buckets = tps_bucket_layout_to_string (facts->layout, facts->parameters);
  g_autofree gchar *compressed = tps_compression_to_string (facts->compression);

  return g_strconcat (buckets, "compression: ", compressed, "\n", facts->on_device ? "d" : "h",
                      NULL);
}

/* `theirs` holds the facts of all ranks, one after another. */
static gboolean
compare_facts (const gchar *ours, const gchar *theirs, const gsize *counts, TpsProcessGroup *group,
               gboolean *all_on_devices, GError **error)
{
  gsize n_bytes = strlen (ours);

  *all_on_devices = TRUE;
  for (guint r = 0; r < group->size; theirs += counts[r], r++)
    {
      if (counts[r] != n_bytes || memcmp (theirs, ours, n_bytes - 1) != 0)
        {
          g_set_error (
              error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
              "trainer %u has another model, other bucket sizes or another compression than "
              "trainer %u",
              r, group->rank);
          return FALSE;
        }
      *all_on_devices &= theirs[n_bytes - 1] == 'd';
    }
  return TRUE;
}

gboolean
tps_layout_check (const TpsLayoutFacts *facts, TpsProcessGroup *group, gboolean *all_on_devices,
                  GError **error)
{
  g_autofree gchar *ours = write_facts (facts);
  g_autofree gsize *counts = g_new0 (gsize, group->size);
  g_autoptr (TpsBuffer) gathered = NULL;

  return gather_and_wait (group, ours, strlen (ours), counts, &gathered, error)
         && compare_facts (ours, (const gchar *) tps_buffer_get_data (gathered), counts, group,
                           all_on_devices, error);
}
