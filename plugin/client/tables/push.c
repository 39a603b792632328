/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pushes of gradients of bags and rows, and of new values of rows. */

#include "plugin/client/tables/plan_sender.h"
#include "plugin/client/tables/push_plan.h"
#include "plugin/client/tables/known_tables.h"
#include "plugin/client/tables/row_split.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"

/* Each request of a push has its own id, because servers do not share their records of ids. */
static TpsPushId
next_push (TpsRemoteTables *tables)
{
  return (TpsPushId) {
    .client = tables->client,
    .sequence = (gint64) atomic_fetch_add_explicit (&tables->n_pushes, 1, memory_order_relaxed) + 1,
  };
}

static gboolean
refuse_shape (TpsTensorView view, const gchar *name, const gchar *expected, GError **error)
{
  g_autofree gchar *got = view.shape.dtype == 0 ? g_strdup ("missing")
                                                : tps_shape_to_string (&view.shape);

  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: %s, expected %s", name, got,
               expected);
  return FALSE;
}

/* -- bags -- */

typedef struct
{
  TpsRemoteTables *tables;
  TpsPushPlan *plan;
  gint64 deadline_ns;
  guint n_requests;
  TpsApplyBagGradientsArguments *arguments; /* borrowed from the plan */
  TpsServerRequest *requests;
  TpsTablesApplied done;
  gpointer user_data;
} BagPush;

static void
finish_bag_push (BagPush *push, const GError *error)
{
  push->done (push->user_data, error);
  tps_push_plan_free (push->plan);
  g_free (push->arguments);
  g_free (push->requests);
  g_free (push);
}

static void
on_bags_applied (gpointer user_data, GError *const *errors)
{
  BagPush *push = user_data;
  g_autoptr (GError) error = tps_servers_dup_error (&push->tables->servers, push->requests,
                                                    push->n_requests, errors, TRUE);

  finish_bag_push (push, error);
}

static void
add_bag_request (BagPush *push, guint server)
{
  const GArray *gradients = push->plan->requests[server].gradients;
  TpsApplyBagGradientsArguments *arguments = &push->arguments[push->n_requests];

  if (gradients->len == 0)
    return;
  arguments->n_gradients = gradients->len;
  arguments->gradients = &g_array_index (gradients, TpsBagGradient, 0);
  arguments->push = next_push (push->tables);
  push->requests[push->n_requests++] = (TpsServerRequest) {
    .server = server,
    .arguments = arguments,
  };
}

static void
send_bag_push (BagPush *push)
{
  TpsServers *servers = &push->tables->servers;

  tps_push_plan_finish (push->plan);
  push->arguments = g_new0 (TpsApplyBagGradientsArguments, servers->n_servers);
  push->requests = g_new0 (TpsServerRequest, servers->n_servers);
  for (guint server = 0; server < servers->n_servers; server++)
    add_bag_request (push, server);
  tps_servers_call (servers, &tps_apply_bag_gradients_rpc, push->requests, push->n_requests,
                    push->deadline_ns, on_bags_applied, push);
}

static void
on_maxima_found (gpointer user_data, const GError *error)
{
  BagPush *push = user_data;

  if (error == NULL)
    send_bag_push (push);
  else
    finish_bag_push (push, error);
}

/* Checks the maxima that the caller passes, if any. Every id other than -1 must be a row. */
static gboolean
check_maxima (const TpsBagGradient *gradient, guint i, const TpsPlacedTable *table, GError **error)
{
  gboolean is_max = gradient->query.pooling == TPS_POOLING_MAX;
  gint64 rows = table->spec.shard.rows;
  gint64 n_cells = tps_shape_n_elems (&gradient->gradient.shape);
  TpsShape expected = gradient->gradient.shape;
  const gint64 *ids = gradient->maxima.data;
  g_autofree gchar *name = g_strdup_printf ("gradients[%u].maxima", i);
  g_autofree gchar *wanted = NULL;

  if (gradient->maxima.shape.dtype == 0)
    return TRUE;
  expected.dtype = TPS_DTYPE_INT64;
  wanted = is_max ? tps_shape_to_string (&expected) : g_strdup ("none: the pooling is not MAX");
  if (!is_max || !tps_shape_equal (&gradient->maxima.shape, &expected)
      || (ids == NULL && n_cells > 0))
    return refuse_shape (gradient->maxima, name, wanted, error);
  for (gint64 cell = 0; cell < n_cells; cell++)
    if (ids[cell] < -1 || ids[cell] >= rows)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "%s[%" G_GINT64_FORMAT "]: %" G_GINT64_FORMAT
                     " is not in [-1, %" G_GINT64_FORMAT ") of table %s",
                     name, cell, ids[cell], rows, table->spec.name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
check_gradients (const TpsBagGradient *gradients, guint n_gradients, const GPtrArray *found,
                 GError **error)
{
  for (guint i = 0; i < n_gradients; i++)
    {
      const TpsPlacedTable *table = found->pdata[i];
      gint64 n_bags = gradients[i].query.offsets.shape.dims[0];
      TpsShape expected = { .dtype = TPS_DTYPE_FLOAT32,
                            .n_dims = 2,
                            .dims = { n_bags, table->spec.dim } };
      const TpsTensorView *gradient = &gradients[i].gradient;
      g_autofree gchar *name = NULL, *wanted = NULL;

      if (tps_shape_equal (&gradient->shape, &expected) && (gradient->data != NULL || n_bags == 0))
        {
          if (!check_maxima (&gradients[i], i, table, error))
            return FALSE;
          continue;
        }
      name = g_strdup_printf ("gradients[%u].gradient", i);
      wanted = tps_shape_to_string (&expected);
      return refuse_shape (*gradient, name, wanted, error);
    }
  return TRUE;
}

void
tps_remote_tables_apply_bags (TpsRemoteTables *tables, const TpsBagGradient *gradients,
                              guint n_gradients, gint64 deadline_ns, TpsTablesApplied done,
                              gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (GPtrArray) found = NULL;
  BagPush *push;

  found = tps_remote_tables_find_all (tables, n_gradients > 0 ? &gradients[0].query : NULL,
                                      n_gradients, sizeof gradients[0], "gradients", &error);
  if (found == NULL || !check_gradients (gradients, n_gradients, found, &error))
    {
      tps_remote_tables_fail_push (tables, done, user_data, error);
      return;
    }
  push = g_new0 (BagPush, 1);
  push->tables = tables;
  push->deadline_ns = deadline_ns;
  push->done = done;
  push->user_data = user_data;
  push->plan = tps_push_plan_new ((TpsPlacedTable *const *) found->pdata, gradients, n_gradients,
                                  tables->servers.n_servers);
  if (push->plan->rows != NULL)
    tps_lookup_plan_send (push->plan->rows, &tables->servers, deadline_ns, on_maxima_found, push);
  else
    send_bag_push (push);
}

/* -- rows -- */

/* Gradients of rows, or new values; either `gradients` or `assignments` is NULL. */
typedef struct
{
  TpsServers *servers;
  TpsRowSplit split;
  TpsApplyRowGradientsArguments *gradients; /* names are borrowed, tensors owned */
  TpsAssignRowsArguments *assignments;      /* the same */
  TpsServerRequest *requests;
  TpsTablesApplied done;
  gpointer user_data;
} RowPush;

static void
row_push_free (RowPush *push)
{
  for (guint i = 0; i < push->split.n_parts; i++)
    if (push->assignments == NULL)
      tps_gradient_clear (&push->gradients[i].gradient);
    else
      {
        tps_tensor_clear (&push->assignments[i].indices);
        tps_tensor_clear (&push->assignments[i].values);
      }
  tps_row_split_clear (&push->split);
  g_free (push->gradients);
  g_free (push->assignments);
  g_free (push->requests);
  g_free (push);
}

static void
on_rows_applied (gpointer user_data, GError *const *errors)
{
  RowPush *push = user_data;
  g_autoptr (GError) error = tps_servers_dup_error (push->servers, push->requests,
                                                    push->split.n_parts, errors, TRUE);

  push->done (push->user_data, error);
  row_push_free (push);
}

static gconstpointer
fill_gradient (TpsRemoteTables *tables, RowPush *push, guint i, TpsTensorView values)
{
  TpsApplyRowGradientsArguments *arguments = &push->gradients[i];
  TpsGradient *gradient = &arguments->gradient;

  arguments->table = push->split.table->spec.name;
  arguments->push = next_push (tables);
  gradient->kind = TPS_GRADIENT_SPARSE;
  gradient->weight = 1;
  gradient->rows = push->split.table->spec.shard.rows;
  tps_tensor_init_borrowed (&gradient->indices, push->split.parts[i].indices);
  tps_row_split_gather (&push->split, i, values, &gradient->values);
  return arguments;
}

static gconstpointer
fill_assignment (TpsRemoteTables *tables, RowPush *push, guint i, TpsTensorView values)
{
  TpsAssignRowsArguments *arguments = &push->assignments[i];

  arguments->table = push->split.table->spec.name;
  arguments->push = next_push (tables);
  tps_tensor_init_borrowed (&arguments->indices, push->split.parts[i].indices);
  tps_row_split_gather (&push->split, i, values, &arguments->values);
  return arguments;
}

static void
add_row_request (TpsRemoteTables *tables, RowPush *push, guint i, TpsTensorView values)
{
  push->requests[i] = (TpsServerRequest) {
    .server = push->split.table->servers[push->split.parts[i].shard],
    .arguments = push->assignments != NULL ? fill_assignment (tables, push, i, values)
                                           : fill_gradient (tables, push, i, values),
  };
}

static gboolean
check_values (const TpsPlacedTable *table, TpsTensorView indices, TpsTensorView values,
              GError **error)
{
  const TpsShape *shape = &values.shape;
  gint64 n_rows = indices.shape.dims[0];
  g_autofree gchar *wanted = NULL;

  if ((shape->dtype == TPS_DTYPE_FLOAT32 || shape->dtype == table->spec.dtype) && shape->n_dims == 2
      && shape->dims[0] == n_rows && shape->dims[1] == table->spec.dim
      && (values.data != NULL || n_rows == 0))
    return TRUE;
  wanted = g_strdup_printf ("%s [%" G_GINT64_FORMAT ", %d]", tps_dtype_name (table->spec.dtype),
                            n_rows, table->spec.dim);
  return refuse_shape (values, "values", wanted, error);
}

static void
push_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices, TpsTensorView values,
           gboolean is_assignment, gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  GError *error = NULL;
  g_autoptr (TpsPlacedTable) table = tps_remote_tables_find (tables, name, &error);
  RowPush *push;

  if (table == NULL || !tps_remote_tables_check_indices (table, indices, &error)
      || !check_values (table, indices, values, &error))
    {
      tps_remote_tables_fail_push (tables, done, user_data, error);
      return;
    }
  push = g_new0 (RowPush, 1);
  push->servers = &tables->servers;
  push->done = done;
  push->user_data = user_data;
  tps_row_split_init (&push->split, table, indices,
                      !is_assignment && tps_optimizer_counts_steps (&table->spec.optimizer));
  if (is_assignment)
    push->assignments = g_new0 (TpsAssignRowsArguments, MAX (push->split.n_parts, 1));
  else
    push->gradients = g_new0 (TpsApplyRowGradientsArguments, push->split.n_parts);
  push->requests = g_new0 (TpsServerRequest, push->split.n_parts);
  for (guint i = 0; i < push->split.n_parts; i++)
    add_row_request (tables, push, i, values);
  tps_servers_call (&tables->servers,
                    is_assignment ? &tps_assign_rows_rpc : &tps_apply_row_gradients_rpc,
                    push->requests, push->split.n_parts, deadline_ns, on_rows_applied, push);
}

void
tps_remote_tables_apply_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices,
                              TpsTensorView values, gint64 deadline_ns, TpsTablesApplied done,
                              gpointer user_data)
{
  push_rows (tables, name, indices, values, FALSE, deadline_ns, done, user_data);
}

void
tps_remote_tables_assign_rows (TpsRemoteTables *tables, const gchar *name, TpsTensorView indices,
                               TpsTensorView values, gint64 deadline_ns, TpsTablesApplied done,
                               gpointer user_data)
{
  push_rows (tables, name, indices, values, TRUE, deadline_ns, done, user_data);
}
