/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A lookup: decode, on the I/O thread -> the store, there or on a worker -> encode.
 * A push: decode -> begin in the window of push ids -> the store -> end in the window, which also answers its repeats.
 *
 * A repeat that comes while the first one runs waits without a thread: the window calls back when the first one ends.
 * Arguments are let go of before a call is answered, so that their bodies leave room for what is read next.
 */

#include "plugin/service/embedding_table_service.h"

#include <stdatomic.h>

#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"
#include "runtime/server/push_digest.h"

/* What is done on an I/O thread at most: bytes that are read and written, and tables that are looked for. */
#define MAX_INLINE_BYTES (64 * 1024)
#define MAX_INLINE_QUERIES 256

struct TpsEmbeddingTables
{
  TpsTableStore *store;
  TpsPushWindow *pushes;
  atomic_bool down;
};

TpsEmbeddingTables *
tps_embedding_tables_new (TpsTableStore *store, const TpsPushWindowOptions *pushes)
{
  TpsEmbeddingTables *tables = g_new0 (TpsEmbeddingTables, 1);

  tables->store = store;
  tables->pushes = tps_push_window_new (pushes);
  atomic_init (&tables->down, FALSE);
  return tables;
}

void
tps_embedding_tables_free (TpsEmbeddingTables *tables)
{
  tps_push_window_free (tables->pushes);
  g_free (tables);
}

void
tps_embedding_tables_get_bytes (gpointer data, gint64 *held, gint64 *max)
{
  TpsEmbeddingTables *tables = data;

  *held = (gint64) tps_table_store_get_bytes (tables->store);
  *max = (gint64) tps_table_store_get_max_bytes (tables->store);
}

static gboolean
check_up (TpsEmbeddingTables *tables, GError **error)
{
  if (!atomic_load (&tables->down))
    return TRUE;
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "the embedding tables are shutting down");
  return FALSE;
}

/* ---- create_table, list_tables, drop_table -------------------------------------------------- */

static void
handle_create_table (TpsCall *call, gpointer service)
{
  TpsEmbeddingTables *tables = service;
  g_auto (TpsTableSpec) spec = { 0 };
  g_autoptr (GError) error = NULL;
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (check_up (tables, &error) && tps_create_table_arguments_decode (&in, &spec, &error))
    tps_table_store_create (tables->store, &spec, &error);
  tps_call_reply_done (call, error);
}

static void
handle_list_tables (TpsCall *call, gpointer service)
{
  TpsEmbeddingTables *tables = service;
  g_autoptr (GArray) specs = NULL;
  g_autoptr (GError) error = NULL;

  if (!check_up (tables, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  specs = tps_table_store_list (tables->store);
  tps_call_reply (call, tps_list_tables_result_encode, specs);
}

static void
handle_drop_table (TpsCall *call, gpointer service)
{
  TpsEmbeddingTables *tables = service;
  g_autofree gchar *table = NULL;
  g_autoptr (GError) error = NULL;
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (check_up (tables, &error) && tps_drop_table_arguments_decode (&in, &table, &error))
    tps_table_store_drop (tables->store, table, &error);
  tps_call_reply_done (call, error);
}

/* ---- lookups -------------------------------------------------------------------------------- */

typedef struct
{
  TpsEmbeddingTables *tables;
  TpsLookupBagsArguments arguments;
} LookupBags;

static void
free_lookup_bags (gpointer data)
{
  LookupBags *lookup = data;

  tps_lookup_bags_arguments_clear (&lookup->arguments);
  g_free (lookup);
}

static void
lookup_bags (TpsCall *call, gpointer user_data)
{
  LookupBags *lookup = user_data;
  guint n_queries = lookup->arguments.n_queries;
  g_auto (TpsTensorList) outputs = { n_queries, g_new0 (TpsTensor, n_queries) };
  g_autoptr (GError) error = NULL;

  gboolean ok = tps_table_store_lookup_bags (lookup->tables->store, lookup->arguments.queries,
                                             n_queries, outputs.tensors, &error);

  free_lookup_bags (lookup);
  if (ok)
    tps_call_reply (call, tps_lookup_bags_result_encode, &outputs);
  else
    tps_call_reply_error (call, error);
}

/* What a query reads and writes. Of a table that is not there its own bytes still count: they are checked. */
static gsize
estimate_query (TpsEmbeddingTables *tables, const TpsBagQuery *query)
{
  gsize n_bytes = tps_shape_n_bytes (&query->indices.shape)
                  + tps_shape_n_bytes (&query->offsets.shape);

  return MAX (n_bytes, tps_table_store_estimate_bags (tables->store, query, 1));
}

static gboolean
is_small_lookup (const LookupBags *lookup)
{
  const TpsLookupBagsArguments *arguments = &lookup->arguments;
  gsize n_bytes = 0;

  if (arguments->n_queries > MAX_INLINE_QUERIES)
    return FALSE;
  for (guint i = 0; i < arguments->n_queries && n_bytes <= MAX_INLINE_BYTES; i++)
    n_bytes += estimate_query (lookup->tables, &arguments->queries[i]);
  return n_bytes <= MAX_INLINE_BYTES;
}

static void
handle_lookup_bags (TpsCall *call, gpointer service)
{
  LookupBags *lookup = g_new0 (LookupBags, 1);
  g_autoptr (GError) error = NULL;
  TpsReader in;

  lookup->tables = service;
  tps_call_get_arguments (call, &in);
  if (!check_up (lookup->tables, &error)
      || !tps_lookup_bags_arguments_decode (&in, &lookup->arguments, &error))
    {
      free_lookup_bags (lookup);
      tps_call_reply_error (call, error);
    }
  else if (is_small_lookup (lookup))
    lookup_bags (call, lookup);
  else
    tps_call_run_on_worker (call, lookup_bags, lookup, free_lookup_bags);
}

typedef struct
{
  TpsEmbeddingTables *tables;
  TpsLookupRowsArguments arguments;
} LookupRows;

static void
lookup_rows (TpsCall *call, LookupRows *lookup)
{
  g_auto (TpsTensor) rows = { 0 };
  g_autoptr (GError) error = NULL;

  gboolean ok = tps_table_store_lookup_rows (lookup->tables->store, lookup->arguments.table,
                                             tps_tensor_view (&lookup->arguments.indices), &rows,
                                             &error);

  tps_lookup_rows_arguments_clear (&lookup->arguments);
  if (ok)
    tps_call_reply (call, tps_lookup_rows_result_encode, &rows);
  else
    tps_call_reply_error (call, error);
}

static void
free_lookup_rows (gpointer data)
{
  LookupRows *lookup = data;

  tps_lookup_rows_arguments_clear (&lookup->arguments);
  g_free (lookup);
}

static void
lookup_rows_on_worker (TpsCall *call, gpointer user_data)
{
  g_autofree LookupRows *lookup = user_data;

  lookup_rows (call, lookup);
}

static gboolean
is_small_rows (TpsEmbeddingTables *tables, const gchar *table, const TpsTensor *indices)
{
  return tps_shape_n_bytes (&indices->shape) <= MAX_INLINE_BYTES
         && tps_table_store_estimate_rows (tables->store, table,
                                           tps_shape_n_elems (&indices->shape))
                <= MAX_INLINE_BYTES;
}

static void
handle_lookup_rows (TpsCall *call, gpointer service)
{
  LookupRows lookup = { .tables = service };
  g_autoptr (GError) error = NULL;
  TpsReader in;

  tps_call_get_arguments (call, &in);
  if (!check_up (lookup.tables, &error)
      || !tps_lookup_rows_arguments_decode (&in, &lookup.arguments, &error))
    {
      tps_lookup_rows_arguments_clear (&lookup.arguments);
      tps_call_reply_error (call, error);
    }
  else if (is_small_rows (lookup.tables, lookup.arguments.table, &lookup.arguments.indices))
    lookup_rows (call, &lookup);
  else
    tps_call_run_on_worker (call, lookup_rows_on_worker, g_memdup2 (&lookup, sizeof lookup),
                            free_lookup_rows);
}

/* ---- pushes --------------------------------------------------------------------------------- */

/* What apply_row_gradients and apply_bag_gradients have in common. The arguments are one of the two. */
typedef struct Push Push;
struct Push
{
  TpsEmbeddingTables *tables;
  TpsPushId *id; /* in the arguments */
  TpsPushDigest (*digest) (const Push *push);
  gboolean (*apply) (const Push *push, GError **error);
  void (*free) (Push *push);
};

static void
answer_repeat (gpointer data, gint64 unused, const GError *error)
{
  tps_call_reply_done (data, error);
}

static void
ignore_end (gpointer unused, gint64 answer_unused, const GError *error)
{
}

static void
set_waiting_error (GError **error, const TpsPushId *id)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "push %" G_GINT64_FORMAT
               " of client %s is being applied, and this server cannot wait: it "
               "serves one connection at a time",
               id->sequence, id->client);
}

/* With a push id: applies it, or finds out how the first one ended. FALSE when that answers the call, later. */
static gboolean
apply_once (TpsCall *call, const Push *push, GError **error)
{
  TpsPushWindow *window = push->tables->pushes;
  const TpsPushId *id = push->id;
  TpsPushDigest digest = push->digest (push);
  gboolean may_wait = tps_call_may_wait (call);
  gint64 unused;

  switch (tps_push_window_begin (window, id->client, id->sequence, &digest,
                                 may_wait ? answer_repeat : ignore_end, call, &unused, error))
    {
    case TPS_PUSH_NEW:
      push->apply (push, error);
      tps_push_window_end (window, id->client, id->sequence, 0, *error);
      return TRUE;
    case TPS_PUSH_RUNNING:
      if (!may_wait)
        set_waiting_error (error, id);
      return !may_wait;
    case TPS_PUSH_REPEAT:
    case TPS_PUSH_REFUSED:
      return TRUE;
    case TPS_PUSH_UNDECIDED: /* of those without a digest */
      break;
    }
  g_assert_not_reached ();
}

static void
run_push (TpsCall *call, gpointer user_data)
{
  Push *push = user_data;
  g_autoptr (GError) error = NULL;
  gboolean is_ours = TRUE;

  if (push->id->client != NULL)
    is_ours = apply_once (call, push, &error);
  else
    push->apply (push, &error);
  push->free (push);
  if (is_ours)
    tps_call_reply_done (call, error);
}

/* The push has not begun: its id stays new. */
static void
free_push (gpointer data)
{
  Push *push = data;

  push->free (push);
}

static void
refuse_push (TpsCall *call, Push *push, const GError *error)
{
  push->free (push);
  tps_call_reply_error (call, error);
}

/* ---- apply_row_gradients -------------------------------------------------------------------- */

typedef struct
{
  Push push; /* first */
  TpsApplyRowGradientsArguments arguments;
} RowPush;

static TpsPushDigest
digest_rows (const Push *push)
{
  const TpsApplyRowGradientsArguments *arguments = &((const RowPush *) push)->arguments;
  TpsPushHash *hash = tps_push_hash_new ();

  tps_push_hash_add_string (hash, "apply_row_gradients");
  tps_push_hash_add_string (hash, arguments->table);
  tps_push_hash_add_i64 (hash, arguments->gradient.rows);
  tps_push_hash_add_tensor (hash, tps_tensor_view (&arguments->gradient.indices));
  tps_push_hash_add_tensor (hash, tps_tensor_view (&arguments->gradient.values));
  return tps_push_hash_end (hash);
}

/* The shape of a sparse gradient is that of what it is a gradient of. What else is wrong the store says. */
static gboolean
check_rows (TpsTableStore *store, const TpsApplyRowGradientsArguments *arguments, GError **error)
{
  gint64 rows = tps_table_store_get_rows (store, arguments->table);

  if (rows == 0 || rows == arguments->gradient.rows)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "gradient.shape[0] is %" G_GINT64_FORMAT ", table %s has %" G_GINT64_FORMAT " rows",
               arguments->gradient.rows, arguments->table, rows);
  return FALSE;
}

static gboolean
apply_rows (const Push *push, GError **error)
{
  const TpsApplyRowGradientsArguments *arguments = &((const RowPush *) push)->arguments;
  TpsTableStore *store = push->tables->store;

  return check_rows (store, arguments, error)
         && tps_table_store_apply_rows (store, arguments->table,
                                        tps_tensor_view (&arguments->gradient.indices),
                                        tps_tensor_view (&arguments->gradient.values), error);
}

static void
free_row_push (Push *push)
{
  tps_apply_row_gradients_arguments_clear (&((RowPush *) push)->arguments);
  g_free (push);
}

static void
handle_apply_row_gradients (TpsCall *call, gpointer service)
{
  RowPush *rows = g_new0 (RowPush, 1);
  TpsApplyRowGradientsArguments *arguments = &rows->arguments;
  g_autoptr (GError) error = NULL;
  TpsReader in;

  rows->push = (Push) { service, &arguments->push, digest_rows, apply_rows, free_row_push };
  tps_call_get_arguments (call, &in);
  if (!check_up (service, &error)
      || !tps_apply_row_gradients_arguments_decode (&in, arguments, &error))
    refuse_push (call, &rows->push, error);
  else if (tps_shape_n_bytes (&arguments->gradient.values.shape) <= MAX_INLINE_BYTES
           && is_small_rows (service, arguments->table, &arguments->gradient.indices))
    run_push (call, rows);
  else
    tps_call_run_on_worker (call, run_push, rows, free_push);
}

/* ---- apply_bag_gradients -------------------------------------------------------------------- */

typedef struct
{
  Push push; /* first */
  TpsApplyBagGradientsArguments arguments;
} BagPush;

static void
hash_bag_gradient (TpsPushHash *hash, const TpsBagGradient *gradient)
{
  tps_push_hash_add_string (hash, gradient->query.table);
  tps_push_hash_add_i64 (hash, gradient->query.pooling);
  tps_push_hash_add_tensor (hash, gradient->query.indices);
  tps_push_hash_add_tensor (hash, gradient->query.offsets);
  tps_push_hash_add_tensor (hash, gradient->query.weights);
  tps_push_hash_add_tensor (hash, gradient->gradient);
}

static TpsPushDigest
digest_bags (const Push *push)
{
  const TpsApplyBagGradientsArguments *arguments = &((const BagPush *) push)->arguments;
  TpsPushHash *hash = tps_push_hash_new ();

  tps_push_hash_add_string (hash, "apply_bag_gradients");
  for (guint i = 0; i < arguments->n_gradients; i++)
    hash_bag_gradient (hash, &arguments->gradients[i]);
  return tps_push_hash_end (hash);
}

static gboolean
apply_bags (const Push *push, GError **error)
{
  const TpsApplyBagGradientsArguments *arguments = &((const BagPush *) push)->arguments;

  return tps_table_store_apply_bags (push->tables->store, arguments->gradients,
                                     arguments->n_gradients, error);
}

static void
free_bag_push (Push *push)
{
  tps_apply_bag_gradients_arguments_clear (&((BagPush *) push)->arguments);
  g_free (push);
}

static gboolean
is_small_bag_push (const BagPush *bags)
{
  const TpsApplyBagGradientsArguments *arguments = &bags->arguments;
  gsize n_bytes = 0;

  if (arguments->n_gradients > MAX_INLINE_QUERIES)
    return FALSE;
  for (guint i = 0; i < arguments->n_gradients && n_bytes <= MAX_INLINE_BYTES; i++)
    n_bytes += estimate_query (bags->push.tables, &arguments->gradients[i].query)
               + tps_shape_n_bytes (&arguments->gradients[i].gradient.shape);
  return n_bytes <= MAX_INLINE_BYTES;
}

static void
handle_apply_bag_gradients (TpsCall *call, gpointer service)
{
  BagPush *bags = g_new0 (BagPush, 1);
  TpsApplyBagGradientsArguments *arguments = &bags->arguments;
  g_autoptr (GError) error = NULL;
  TpsReader in;

  bags->push = (Push) { service, &arguments->push, digest_bags, apply_bags, free_bag_push };
  tps_call_get_arguments (call, &in);
  if (!check_up (service, &error)
      || !tps_apply_bag_gradients_arguments_decode (&in, arguments, &error))
    refuse_push (call, &bags->push, error);
  else if (is_small_bag_push (bags))
    run_push (call, bags);
  else
    tps_call_run_on_worker (call, run_push, bags, free_push);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* Nothing waits but for what runs, and that ends by itself. */
static void
shut_down (gpointer object)
{
  TpsEmbeddingTables *tables = object;

  atomic_store (&tables->down, TRUE);
}

static const TpsMethod methods[] = {
  { "create_table", handle_create_table, TRUE }, /* fills the rows */
  { "list_tables", handle_list_tables, FALSE },
  { "drop_table", handle_drop_table, TRUE }, /* gives the memory back */
  { "lookup_bags", handle_lookup_bags, FALSE },
  { "lookup_rows", handle_lookup_rows, FALSE },
  { "apply_row_gradients", handle_apply_row_gradients, FALSE },
  { "apply_bag_gradients", handle_apply_bag_gradients, FALSE },
  { NULL },
};

TpsService
tps_embedding_table_service (TpsEmbeddingTables *tables)
{
  return (TpsService) {
    .name = "EmbeddingTable", .methods = methods, .object = tables, .shut_down = shut_down
  };
}
