/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The beginning and end of a store, and look-ups, lists and sizes of its tables. Other files create
 * and drop tables (table_creation.c), import them (table_import.c), and read and change their rows
 * (lookup.c, apply.c). */

#include "runtime/server/tables/table_store.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/name_hash.h"
#include "runtime/server/tables/table_calls.h"
#include "runtime/server/tables/row_store.h"
#include "runtime/server/tables/table_store_private.h"

#define DEFAULT_SHARE 0.8 /* of the host's memory */
/* Answers and scratch each have a quarter of the default for tables. */
#define DEFAULT_ANSWERS_PART 4
#define DEFAULT_SCRATCH_PART 4
#define MAX_KEPT_BYTES ((gsize) 256 << 20) /* of released memory, kept for reuse; for each pool */
/* The bytes of one entry of a list: a specification with two names, and a reference. */
#define LISTED_BYTES (sizeof (TpsTableSpec) + 2 * 288 + sizeof (gpointer))

gsize
tps_table_store_get_default_max_bytes (void)
{
  return (gsize) (DEFAULT_SHARE * (gdouble) tps_host_memory_get_total ());
}

static void
table_unref (gpointer table)
{
  tps_table_unref (table);
}

static void
lanes_free (gpointer lanes)
{
  tps_device_lanes_free (lanes);
}

static void
make_own_budgets (TpsTableStore *store, const TpsTableStoreOptions *options)
{
  gsize max_bytes = tps_table_store_get_default_max_bytes ();

  store->budget = tps_budget_new (NULL, "tables",
                                  options->max_bytes > 0 ? options->max_bytes : max_bytes);
  tps_budget_set_flag (store->budget, "--max-table-mib");
  store->answer_budget = tps_budget_new (
      NULL, "replies",
      options->max_answer_bytes > 0 ? options->max_answer_bytes : max_bytes / DEFAULT_ANSWERS_PART);
  store->scratch_budget = tps_budget_new (NULL, "lookups and pushes",
                                          options->max_scratch_bytes > 0
                                              ? options->max_scratch_bytes
                                              : max_bytes / DEFAULT_SCRATCH_PART);
}

static void
make_budgets (TpsTableStore *store, const TpsTableStoreOptions *options)
{
  const TpsBudgets *budgets = options->budgets;

  store->device_budget = tps_budget_new (NULL, "tables on devices", 0);
  if (budgets == NULL)
    {
      make_own_budgets (store, options);
      return;
    }
  store->budget = tps_budget_ref (budgets->tables);
  store->answer_budget = tps_budget_ref (budgets->replies);
  store->kept_budget = tps_budget_ref (budgets->kept);
  store->scratch_budget = tps_budget_new (budgets->replies, "lookups and pushes", 0);
}

static void
make_sequencer (TpsTableStore *store, const TpsTableStoreOptions *options)
{
  TpsSequencerOptions own = { .workers = options->workers };

  store->owns_sequencer = options->sequencer == NULL;
  store->sequencer = store->owns_sequencer ? tps_sequencer_new (&own) : options->sequencer;
}

TpsTableStore *
tps_table_store_new (const TpsTableStoreOptions *options)
{
  TpsTableStore *store = g_new0 (TpsTableStore, 1);

  make_budgets (store, options);
  make_sequencer (store, options);
  if (options->counters != NULL)
    store->counters = tps_counters_ref (options->counters);
  store->pushes = tps_push_window_new (&options->pushes);
  store->answers = tps_buffer_pool_new (store->answer_budget, store->kept_budget, MAX_KEPT_BYTES);
  store->scratch = tps_buffer_pool_new (store->scratch_budget, store->kept_budget, MAX_KEPT_BYTES);
  store->workers = options->workers;
  store->quotas = options->quotas;
  store->place = options->place;
  if (store->place.device[0] == '\0')
    g_strlcpy (store->place.device, TPS_TABLE_STORE_HOST, sizeof store->place.device);
  store->durability = options->durability;
  store->keeps_row_lsns = options->keeps_row_lsns;
  store->max_row_bytes_of_call = options->max_row_bytes_of_call > 0
                                     ? options->max_row_bytes_of_call
                                     : TPS_TABLE_STORE_ROW_BYTES_OF_CALL;
  store->find_device = options->find_device != NULL ? options->find_device : tps_device_find;
  tps_mutex_init (&store->making_lock);
  tps_cond_init (&store->made);
  store->making = g_hash_table_new (g_str_hash, g_str_equal);
  store->lanes = g_hash_table_new_full (NULL, NULL, NULL, lanes_free);
  tps_rw_lock_init (&store->tables_lock);
  store->tables = g_hash_table_new_full (tps_name_hash, g_str_equal, NULL, table_unref);
  store->importing = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  return store;
}

void
tps_table_store_free (TpsTableStore *store)
{
  g_hash_table_unref (store->tables);
  g_hash_table_unref (store->importing);
  tps_rw_lock_clear (&store->tables_lock);
  g_hash_table_unref (store->making);
  g_hash_table_unref (store->lanes);
  tps_cond_clear (&store->made);
  tps_mutex_clear (&store->making_lock);
  tps_buffer_pool_unref (store->answers);
  tps_buffer_pool_unref (store->scratch);
  tps_push_window_free (store->pushes);
  if (store->owns_sequencer)
    tps_sequencer_free (store->sequencer);
  g_clear_pointer (&store->counters, tps_counters_unref);
  tps_budget_unref (store->scratch_budget);
  tps_budget_unref (store->answer_budget);
  tps_budget_unref (store->kept_budget);
  tps_budget_unref (store->device_budget);
  tps_budget_unref (store->budget);
  g_free (store);
}

TpsWorkerPool *
tps_table_store_get_workers (TpsTableStore *store)
{
  return store->workers;
}

TpsBufferPool *
tps_table_store_get_answers (TpsTableStore *store)
{
  return store->answers;
}

TpsSequencer *
tps_table_store_get_sequencer (TpsTableStore *store)
{
  return store->sequencer;
}

TpsPushWindow *
tps_table_store_get_pushes (TpsTableStore *store)
{
  return store->pushes;
}

TpsBufferPool *
tps_table_store_get_scratch (TpsTableStore *store)
{
  return store->scratch;
}

gsize
tps_table_store_get_max_row_bytes_of_call (TpsTableStore *store)
{
  return store->max_row_bytes_of_call;
}

gboolean
tps_table_store_keeps_row_lsns (TpsTableStore *store)
{
  return store->keeps_row_lsns;
}

TpsBudget *
tps_table_store_get_budget (TpsTableStore *store)
{
  return store->budget;
}

void
tps_table_store_set_snapshot_lsn (TpsTableStore *store, gint64 lsn)
{
  store->snapshot_lsn = lsn;
}

gint64
tps_table_store_get_snapshot_lsn (TpsTableStore *store)
{
  return store->snapshot_lsn;
}

/* -- finding -- */

TpsTable *
tps_table_store_ref_table (TpsTableStore *store, const gchar *table, GError **error)
{
  TpsTable *found = tps_table_store_find (store, table);

  if (found == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "table: there is no table %s", table);
  return found;
}

gint64
tps_table_store_get_incarnation (TpsTableStore *store, const gchar *name)
{
  g_autoptr (TpsTable) table = name != NULL ? tps_table_store_find (store, name) : NULL;

  return table != NULL ? table->incarnation : 0;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp ((*(TpsTable *const *) a)->spec.name, (*(TpsTable *const *) b)->spec.name);
}

/* Returns references to all tables, in the order of their names, so that the caller can copy the
 * specifications without the lock. */
static GPtrArray *
ref_tables (TpsTableStore *store, gboolean with_imported)
{
  GPtrArray *refs = g_ptr_array_new_with_free_func (table_unref);
  GHashTableIter tables;
  gpointer table;

  tps_rw_lock_read (&store->tables_lock);
  g_hash_table_iter_init (&tables, store->tables);
  while (g_hash_table_iter_next (&tables, NULL, &table))
    g_ptr_array_add (refs, tps_table_ref (table));
  g_hash_table_iter_init (&tables, store->importing);
  while (with_imported && g_hash_table_iter_next (&tables, NULL, &table))
    if (table != NULL)
      g_ptr_array_add (refs, tps_table_ref (table));
  tps_rw_lock_unlock (&store->tables_lock);
  g_ptr_array_sort (refs, compare_names);
  return refs;
}

GPtrArray *
tps_table_store_ref_tables (TpsTableStore *store)
{
  return ref_tables (store, TRUE);
}

gboolean
tps_table_store_list (TpsTableStore *store, TpsTableSpecs *specs, GError **error)
{
  g_autoptr (GPtrArray) tables = ref_tables (store, FALSE);

  specs->specs = g_try_new0 (TpsTableSpec, tables->len);
  if (specs->specs == NULL && tables->len > 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for a list of %u tables", tables->len);
      return FALSE;
    }
  for (guint i = 0; i < tables->len; i++)
    tps_table_spec_copy (&specs->specs[specs->n_specs++],
                         &((const TpsTable *) tables->pdata[i])->spec);
  return TRUE;
}

gsize
tps_table_store_get_list_bytes (TpsTableStore *store)
{
  guint n_tables;

  tps_rw_lock_read (&store->tables_lock);
  n_tables = g_hash_table_size (store->tables);
  tps_rw_lock_unlock (&store->tables_lock);
  return n_tables * LISTED_BYTES;
}

/* -- memory -- */

gsize
tps_table_store_get_bytes (TpsTableStore *store)
{
  return tps_budget_get_held (store->budget);
}

gsize
tps_table_store_get_device_bytes (TpsTableStore *store)
{
  return tps_budget_get_held (store->device_budget);
}

gsize
tps_table_store_get_max_bytes (TpsTableStore *store)
{
  return tps_budget_get_max (store->budget);
}

/* Returns the bytes that a call moves if it reads `n_rows` rows and writes `n_outputs` vectors; 0
 * if there is no table. */
static gsize
estimate (TpsTableStore *store, const gchar *name, gsize n_rows, gsize n_outputs)
{
  const TpsTable *table;
  gsize n_bytes;

  if (name == NULL)
    return 0;
  tps_rw_lock_read (&store->tables_lock);
  table = g_hash_table_lookup (store->tables, name);
  n_bytes = table != NULL ? table->row_store->estimate (table, n_rows, n_outputs) : 0;
  tps_rw_lock_unlock (&store->tables_lock);
  return n_bytes;
}

gint64
tps_table_store_get_rows (TpsTableStore *store, const gchar *table)
{
  g_autoptr (TpsTable) found = tps_table_store_find (store, table);

  return found != NULL ? found->spec.shard.rows : 0;
}

static gsize
length_of (TpsTensorView vector)
{
  return vector.shape.n_dims == 1 && vector.shape.dims[0] > 0 ? (gsize) vector.shape.dims[0] : 0;
}

gsize
tps_table_store_estimate_bags (TpsTableStore *store, const TpsBagQuery *queries, guint n_queries)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_queries && n_bytes < TPS_TABLE_STORE_WAITS; i++)
    n_bytes += estimate (store, queries[i].table, length_of (queries[i].indices),
                         length_of (queries[i].offsets));
  return n_bytes;
}

gsize
tps_table_store_estimate_rows (TpsTableStore *store, const gchar *table, gint64 n_rows)
{
  return estimate (store, table, (gsize) MAX (n_rows, 0), (gsize) MAX (n_rows, 0));
}
