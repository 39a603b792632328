/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/tables/table_plans.h"

#include <string.h>

#include "plugin/client/tables/maxima.h"
#include "runtime/base/error.h"
#include "runtime/device/cpu/kernels/elementwise.h"

/* ---- lookups -------------------------------------------------------------------------------- */

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

/* ---- pushes --------------------------------------------------------------------------------- */

static void
free_expanded (gpointer data)
{
  tps_max_gradient_clear (data);
  g_free (data);
}

static void
free_buffer (gpointer data)
{
  tps_buffer_unref (data);
}

static gboolean
needs_lookup (const TpsBagGradient *gradient)
{
  return gradient->query.pooling == TPS_POOLING_MAX && gradient->maxima.shape.dtype == 0;
}

/* Plans the lookup of the maxima that the caller does not pass. */
static void
plan_rows (TpsPushPlan *plan)
{
  g_autofree TpsPlacedTable **tables = g_new (TpsPlacedTable *, plan->n_gradients);
  g_autofree TpsBagQuery *queries = g_new (TpsBagQuery, plan->n_gradients);
  guint n = 0;

  for (guint i = 0; i < plan->n_gradients; i++)
    if (needs_lookup (&plan->gradients[i]))
      {
        tables[n] = plan->tables[i];
        queries[n++] = plan->gradients[i].query;
      }
  if (n > 0)
    plan->rows = tps_lookup_plan_new (tables, queries, n, TPS_SPLIT_POOLED, plan->n_servers);
}

TpsPushPlan *
tps_push_plan_new (TpsPlacedTable *const *tables, const TpsBagGradient *gradients,
                   guint n_gradients, guint n_servers)
{
  TpsPushPlan *plan = g_new0 (TpsPushPlan, 1);

  plan->n_servers = n_servers;
  plan->requests = g_new0 (TpsPushPart, n_servers);
  for (guint server = 0; server < n_servers; server++)
    plan->requests[server].gradients = g_array_new (FALSE, FALSE, sizeof (TpsBagGradient));
  plan->n_gradients = n_gradients;
  plan->tables = g_new (TpsPlacedTable *, n_gradients);
  plan->gradients = g_new (TpsBagGradient, n_gradients);
  plan->splits = g_new0 (TpsBagSplit, n_gradients);
  plan->expanded = g_ptr_array_new_with_free_func (free_expanded);
  plan->buffers = g_ptr_array_new_with_free_func (free_buffer);
  for (guint i = 0; i < n_gradients; i++)
    {
      plan->tables[i] = tps_placed_table_ref (tables[i]);
      plan->gradients[i] = gradients[i];
    }
  plan_rows (plan);
  return plan;
}

void
tps_push_plan_free (TpsPushPlan *plan)
{
  g_clear_pointer (&plan->rows, tps_lookup_plan_free);
  for (guint i = 0; i < plan->n_gradients; i++)
    {
      tps_bag_split_clear (&plan->splits[i]);
      tps_placed_table_unref (plan->tables[i]);
    }
  for (guint server = 0; server < plan->n_servers; server++)
    g_array_unref (plan->requests[server].gradients);
  g_ptr_array_unref (plan->expanded);
  g_ptr_array_unref (plan->buffers);
  g_free (plan->requests);
  g_free (plan->tables);
  g_free (plan->gradients);
  g_free (plan->splits);
  g_free (plan);
}

/* Replaces the gradient of bags with pooling MAX by a gradient of rows. */
static void
expand (TpsPushPlan *plan, guint i, TpsTensorView maxima)
{
  TpsMaxGradient *expanded = g_new (TpsMaxGradient, 1);

  tps_max_gradient_init (expanded, &plan->gradients[i], maxima);
  g_ptr_array_add (plan->expanded, expanded);
  plan->gradients[i] = expanded->gradient;
}

static void
expand_maxima (TpsPushPlan *plan)
{
  guint n_found = plan->rows != NULL ? plan->rows->n_queries : 0;
  g_autofree TpsTensor *pooled = g_new0 (TpsTensor, n_found);
  g_autofree TpsTensor *maxima = g_new0 (TpsTensor, n_found);
  guint n = 0;

  if (plan->rows != NULL)
    tps_lookup_plan_finish (plan->rows, pooled, maxima);
  for (guint i = 0; i < plan->n_gradients; i++)
    if (needs_lookup (&plan->gradients[i]))
      expand (plan, i, tps_tensor_view (&maxima[n++]));
    else if (plan->gradients[i].query.pooling == TPS_POOLING_MAX)
      expand (plan, i, plan->gradients[i].maxima);
  for (guint i = 0; i < n_found; i++)
    {
      tps_tensor_clear (&pooled[i]);
      tps_tensor_clear (&maxima[i]);
    }
}

static gsize
bag_count (const TpsBagQuery *query, gsize bag)
{
  const gint64 *offsets = query->offsets.data;
  gint64 end = bag + 1 < (gsize) query->offsets.shape.dims[0] ? offsets[bag + 1]
                                                              : query->indices.shape.dims[0];

  return (gsize) (end - offsets[bag]);
}

/* Returns the gradients of the bags of a part. Each bag receives the gradient of the whole bag. For
 * a mean, it is divided by the number of ids of the whole bag. */
static TpsTensorView
gather_gradient (TpsPushPlan *plan, const TpsBagGradient *whole, const TpsBagPart *part)
{
  TpsTensorView gathered = whole->gradient;
  gsize dim = (gsize) gathered.shape.dims[1];
  const gfloat *from = whole->gradient.data;
  TpsBuffer *buffer = tps_buffer_new (part->n_bags * dim * sizeof (gfloat));
  gfloat *to = (gfloat *) (gpointer) tps_buffer_get_data (buffer);

  g_ptr_array_add (plan->buffers, buffer);
  gathered.shape.dims[0] = (gint64) part->n_bags;
  gathered.data = to;
  for (gsize i = 0; i < part->n_bags; i++, to += dim)
    {
      gsize bag = (gsize) part->bags[i];

      if (whole->query.pooling == TPS_POOLING_MEAN)
        /* The count is rounded to FLOAT32, as on a server. */
        tps_cpu_divide (TPS_DTYPE_FLOAT32, to, from + bag * dim,
                        (gdouble) (gfloat) bag_count (&whole->query, bag), dim);
      else
        memcpy (to, from + bag * dim, dim * sizeof to[0]);
    }
  return gathered;
}

/* -- steps without ids -- */

static gboolean
is_first_of_table (const TpsPushPlan *plan, guint i)
{
  for (guint j = 0; j < i; j++)
    if (plan->splits[j].table == plan->splits[i].table)
      return FALSE;
  return TRUE;
}

/* Pushes an empty gradient to each shard of the table that has no part of this push, so that the
 * shard counts the step. `i` is the first gradient of the table. */
static void
count_step (TpsPushPlan *plan, guint i)
{
  const TpsPlacedTable *table = plan->splits[i].table;
  g_autofree gboolean *is_touched = g_new0 (gboolean, table->n_shards);
  TpsBagGradient nothing = {
    .query = {
      .table = table->spec.name,
      .indices = { .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1 } },
      .offsets = { .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1 } },
      .pooling = TPS_POOLING_SUM,
    },
    .gradient = { .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2,
                             .dims = { 0, table->spec.dim } } },
  };

  for (guint j = i; j < plan->n_gradients; j++)
    for (guint part = 0; plan->splits[j].table == table && part < plan->splits[j].n_parts; part++)
      is_touched[plan->splits[j].parts[part].shard] = TRUE;
  for (guint shard = 0; shard < table->n_shards; shard++)
    if (!is_touched[shard])
      g_array_append_val (plan->requests[table->servers[shard]].gradients, nothing);
}

void
tps_push_plan_finish (TpsPushPlan *plan)
{
  expand_maxima (plan);
  for (guint i = 0; i < plan->n_gradients; i++)
    tps_bag_split_init (&plan->splits[i], plan->tables[i], &plan->gradients[i].query,
                        TPS_SPLIT_POOLED);
  for (guint i = 0; i < plan->n_gradients; i++)
    {
      for (guint part = 0; part < plan->splits[i].n_parts; part++)
        {
          const TpsBagSplit *split = &plan->splits[i];
          guint server = split->table->servers[split->parts[part].shard];
          TpsBagGradient pushed = {
            .query = tps_bag_split_get_query (split, part),
            .gradient = plan->gradients[i].gradient,
          };

          if (!split->is_passed_on)
            pushed.gradient = gather_gradient (plan, &plan->gradients[i], &split->parts[part]);
          g_array_append_val (plan->requests[server].gradients, pushed);
        }
      if (tps_optimizer_counts_steps (&plan->splits[i].table->spec.optimizer)
          && is_first_of_table (plan, i))
        count_step (plan, i);
    }
}
