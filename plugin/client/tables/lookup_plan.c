/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/lookup_plan.h"

#include "runtime/base/error.h"

TpsLookupPlan *
tps_lookup_plan_new (TpsPlacedTable *const *tables, const TpsBagQuery *queries, guint n_queries,
                     TpsSplitMode mode, guint n_servers)
{
  TpsLookupPlan *plan = g_new0 (TpsLookupPlan, 1);

  plan->n_queries = n_queries;
  plan->splits = g_new0 (TpsBagSplit, n_queries);
  plan->n_servers = n_servers;
  plan->requests = g_new0 (TpsLookupRequest, n_servers);
  for (guint server = 0; server < n_servers; server++)
    {
      plan->requests[server].plan = plan;
      plan->requests[server].queries = g_array_new (FALSE, FALSE, sizeof (TpsBagQuery));
      plan->requests[server].parts = g_array_new (FALSE, FALSE, sizeof (TpsPartNumber));
    }
  for (guint i = 0; i < n_queries; i++)
    {
      tps_bag_split_init (&plan->splits[i], tables[i], &queries[i], mode);
      for (guint part = 0; part < plan->splits[i].n_parts; part++)
        {
          guint server = tables[i]->servers[plan->splits[i].parts[part].shard];
          TpsBagQuery query = tps_bag_split_get_query (&plan->splits[i], part);
          TpsPartNumber number = { i, part };

          g_array_append_val (plan->requests[server].queries, query);
          g_array_append_val (plan->requests[server].parts, number);
        }
    }
  return plan;
}

void
tps_lookup_plan_free (TpsLookupPlan *plan)
{
  for (guint i = 0; i < plan->n_queries; i++)
    tps_bag_split_clear (&plan->splits[i]);
  for (guint server = 0; server < plan->n_servers; server++)
    {
      g_array_unref (plan->requests[server].queries);
      g_array_unref (plan->requests[server].parts);
    }
  g_free (plan->splits);
  g_free (plan->requests);
  g_free (plan);
}

gboolean
tps_lookup_plan_take_answer (TpsLookupPlan *plan, guint server, TpsTensor *tensors, guint n_tensors,
                             GError **error)
{
  const GArray *parts = plan->requests[server].parts;

  if (n_tensors != parts->len)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "the reply has %u tensors, expected %u",
                     n_tensors, parts->len);
  for (guint i = 0; i < n_tensors; i++)
    {
      const TpsPartNumber *number = &g_array_index (parts, TpsPartNumber, i);

      if (!tps_bag_split_take_answer (&plan->splits[number->query], number->part, &tensors[i],
                                      error))
        return FALSE;
    }
  return TRUE;
}

void
tps_lookup_plan_finish (TpsLookupPlan *plan, TpsTensor *outputs, TpsTensor *maxima)
{
  for (guint i = 0; i < plan->n_queries; i++)
    tps_bag_split_merge (&plan->splits[i], &outputs[i], &maxima[i]);
}
