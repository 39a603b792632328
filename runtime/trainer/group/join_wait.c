/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/join_wait.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SLICE_NS 200000000 /* interval between checks for cancellation */

static gchar *
dup_full_key (const TpsProcessGroupOptions *options, const gchar *key)
{
  return g_strconcat (options->prefix == NULL ? "" : options->prefix, key, NULL);
}

/* Returns TRUE if the wait for the key may be repeated. Shortly before the deadline of a request, a
 * store may also reply that the key does not exist yet. */
static gboolean
is_not_there_yet (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND);
}

static gboolean
check_not_cancelled (const TpsProcessGroupOptions *options, GError **error)
{
  if (options->is_cancelled == NULL || !options->is_cancelled (options->user_data))
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED, "process group: joining was cancelled");
}

GBytes *
tps_join_wait (const TpsProcessGroupOptions *options, const gchar *key, const gchar *awaited_rank,
               gint64 deadline_ns, GError **error)
{
  g_autofree gchar *full = dup_full_key (options, key);
  gint64 now;

  do
    {
      g_autoptr (GError) failure = NULL;
      GBytes *value;

      if (!check_not_cancelled (options, error))
        return NULL;
      now = tps_clock_now_ns ();
      value = options->store->ops->get (options->store, full, MIN (deadline_ns, now + SLICE_NS),
                                        &failure);
      if (value != NULL)
        return value;
      if (!is_not_there_yet (failure))
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&failure), "process group: ");
          return NULL;
        }
    }
  while (now < deadline_ns);
  return tps_fail_null (error, TPS_ERROR_DEADLINE_EXCEEDED,
                        "process group: rank %s has not joined within %" G_GINT64_FORMAT " ms",
                        awaited_rank, options->timeout_ns / 1000000);
}

gboolean
tps_join_put (const TpsProcessGroupOptions *options, const gchar *key, GBytes *value,
              GError **error)
{
  g_autofree gchar *full = dup_full_key (options, key);

  if (options->store->ops->put (options->store, full, value, error))
    return TRUE;
  g_prefix_error (error, "process group: ");
  return FALSE;
}
