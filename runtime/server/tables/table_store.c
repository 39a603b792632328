/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* To create a table, the store adds the name to `making`, and fills the table without a lock. Then
 * it admits the command and makes the table known under one lock. Every command that finds the
 * table therefore has a later LSN. A second creation of the same name waits until the first
 * creation has ended, and then looks up the name again.
 *
 * To drop a table, the store removes the table and admits the command under one lock. Pushes that
 * were admitted earlier still take effect. Later pushes are refused.
 *
 * Locks, in the order in which they are taken: `making_lock`, `tables_lock`, the sequencer's. */

#include "runtime/server/tables/table_store.h"

#include <string.h>

#include "runtime/server/tables/device/device_rows.h"
#include "runtime/server/tables/host/table.h"
#include "runtime/server/tables/row_store.h"
#include "runtime/server/tables/table_calls.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/base/error.h"
#include "runtime/machine/machine.h"
#include "runtime/base/outcome.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"

/* The place of tables in the host's memory, as specifications name it. */
#define HOST "cpu"

/* A command that creates or drops a table, in the caller's storage. It takes effect when it is
 * admitted. The caller must call finish() after the admission. */
typedef struct
{
  TpsOrdered ordered; /* first */
  TpsCommand command;
  TpsTableSpec spec; /* of a creation; a drop needs its name only */
  TpsOutcome outcome;
} TpsTableChange;

static TpsTraceEvent table_created = TPS_TRACE_EVENT ("table_created", TPS_TRACE_INFO);
static TpsTraceEvent table_dropped = TPS_TRACE_EVENT ("table_dropped", TPS_TRACE_INFO);

#define DEFAULT_SHARE 0.8                  /* of the host's memory */
#define MAX_KEPT_BYTES ((gsize) 256 << 20) /* of released memory, kept for reuse; for each pool */
/* The bytes of one entry of a list: a specification with two names, and a reference. */
#define LISTED_BYTES (sizeof (TpsTableSpec) + 2 * 288 + sizeof (gpointer))

/* Returns the table of this name, to which the caller owns a reference; NULL if there is none.
 * Inline, because every lookup and push calls it. */
static inline TpsTable *
find_table (TpsTableStore *store, const gchar *name)
{
  TpsTable *table;

  tps_rw_lock_read (&store->tables_lock);
  table = g_hash_table_lookup (store->tables, name);
  if (table != NULL)
    tps_table_ref (table);
  tps_rw_lock_unlock (&store->tables_lock);
  return table;
}

/* Returns the lanes of a device, which are made on first use and live as long as the store. */
static TpsDeviceLanes *
provide_lanes (TpsTableStore *store, TpsDevice *device)
{
  TpsDeviceLanes *lanes;

  TPS_LOCK_SCOPE (&store->making_lock);
  lanes = g_hash_table_lookup (store->lanes, device);
  if (lanes == NULL)
    {
      lanes = tps_device_lanes_new (device, store->answer_budget, store->scratch_budget,
                                    store->kept_budget);
      g_hash_table_insert (store->lanes, device, lanes);
    }
  return lanes;
}

/* Sets the budgets of a table. Its host memory is charged to the budget of its tenant; without a
 * tenant, to the budget of all tables. */
static void
find_budgets (TpsTableStore *store, const TpsTableSpec *spec, TpsTableOptions *options)
{
  TpsTenant *tenant = spec->tenant != NULL && store->quotas != NULL
                          ? tps_quotas_find (store->quotas, spec->tenant)
                          : NULL;

  options->budget = tenant != NULL ? tps_tenant_get_table_budget (tenant) : NULL;
  options->quota = tenant != NULL ? tps_tenant_get_table_quota (tenant) : NULL;
  if (options->budget == NULL)
    options->budget = store->budget;
}

static TpsTable *
make_on_device (TpsTableStore *store, const TpsTableSpec *spec, const TpsTableOptions *options,
                GError **error)
{
  TpsBudget *budget = spec->place.is_host_memory ? options->budget : store->device_budget;
  TpsDevice *device;

  device = store->find_device (spec->place.device, error);
  if (device == NULL)
    {
      g_prefix_error (error, "spec.device: ");
      return NULL;
    }
  return tps_table_new_on_device (spec, provide_lanes (store, device), budget, options, error);
}

/* Makes the table of a resolved specification; the caller owns the only reference. If `is_unfilled`
 * is TRUE, the caller must write the rows. Takes `making_lock` for tables on devices. Errors:
 * INVALID_ARGUMENT, NOT_FOUND (there is no such device), RESOURCE_EXHAUSTED, DEVICE_LOST. */
static TpsTable *
make_table (TpsTableStore *store, const TpsTableSpec *spec, gboolean is_unfilled, GError **error)
{
  TpsTableOptions options = { .workers = store->workers,
                              .keeps_lsns = store->keeps_row_lsns,
                              .is_unfilled = is_unfilled };
  gboolean is_on_host = g_str_equal (spec->place.device, HOST);
  TpsTable *table;

  find_budgets (store, spec, &options);
  table = is_on_host ? tps_table_new (spec, &options, error)
                     : make_on_device (store, spec, &options, error);
  if (table == NULL)
    return NULL;
  table->row_store = is_on_host ? &tps_rows_on_host : &tps_rows_on_device;
  table->numbers = tps_table_numbers_new (store->counters, &table->spec);
  return table;
}

TpsTable *
tps_table_store_make_restored (TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  TpsTable *table = make_table (store, spec, TRUE, error);

  /* A store without a log (durability 0) cannot keep the durability of the snapshot. */
  if (table != NULL && (table->spec.durability == 0 || store->durability == 0))
    table->spec.durability = store->durability;
  return table;
}

TpsTable *
tps_table_store_make_unfilled (TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  if (g_str_equal (spec->place.device, HOST))
    return tps_table_store_make_restored (store, spec, error);
  return tps_fail_null (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "table %s: only tables in the host's memory are imported, and this one is on %s", spec->name,
      spec->place.device);
}

static void
change_ended (TpsOrdered *ordered, const GError *error)
{
  tps_outcome_set (&((TpsTableChange *) ordered)->outcome, error);
}

/* Initialises a change. `kind` must be TPS_COMMAND_CREATE_TABLE or TPS_COMMAND_DROP_TABLE. `spec`
 * is copied. */
static void
change_init (TpsTableChange *change, TpsCommandKind kind, const TpsTableSpec *spec)
{
  *change = (TpsTableChange) {
    .ordered = { .command = &change->command, .ended = change_ended },
    .command = { .kind = kind },
  };
  tps_table_spec_copy (&change->spec, spec);
  /* The table exists after a crash in every durability of its pushes (embedding_table.thrift). */
  change->command.durability = TPS_DURABILITY_COMMIT;
  TPS_PLANT ("tables-not-logged", change->command.durability = TPS_DURABILITY_NONE);
  if (kind == TPS_COMMAND_CREATE_TABLE)
    change->command.create = &change->spec;
  else
    change->command.drop = change->spec.name;
  tps_outcome_init (&change->outcome);
}

/* Waits until the command has ended, and clears `change`. No lock may be held. Errors: those of the
 * sequencer's observer. */
static gboolean
change_finish (TpsTableChange *change, TpsTableStore *store, GError **error)
{
  gboolean ok;

  tps_sequencer_finish (store->sequencer, &change->ordered);
  ok = tps_outcome_wait (&change->outcome, error);
  tps_table_spec_clear (&change->spec);
  return ok;
}

static void
trace_created (const TpsTableSpec *spec)
{
  tps_trace (&table_created, tps_field_text ("table", spec->name),
             tps_field_int ("rows", spec->shard.rows), tps_field_int ("dim", spec->dim),
             tps_field_text ("dtype", tps_dtype_name (spec->dtype)),
             tps_field_text ("device", spec->place.device));
}

static gboolean
check_same (const TpsTable *table, const TpsTableSpec *spec, GError **error)
{
  g_autofree gchar *difference = tps_table_spec_dup_difference (&table->spec, spec);

  if (difference == NULL)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ALREADY_EXISTS, "table %s already exists with a different %s",
                   spec->name, difference);
}

/* Waits until no other thread makes a table of this name. If the table is known then, sets
 * `present` to a reference. Otherwise sets `present` to NULL and adds the name to `making`; the
 * name is borrowed until end_making(). Errors: ALREADY_EXISTS (a table of this name is being
 * imported). */
static gboolean
begin_making (TpsTableStore *store, gchar *name, TpsTable **present, GError **error)
{
  TPS_LOCK_SCOPE (&store->making_lock);
  while (g_hash_table_contains (store->making, name))
    tps_cond_wait (&store->made, &store->making_lock);
  if (g_hash_table_contains (store->importing, name))
    return tps_fail (error, TPS_ERROR_ALREADY_EXISTS, "table %s is being imported", name);
  *present = find_table (store, name);
  if (*present == NULL)
    g_hash_table_add (store->making, name);
  return TRUE;
}

/* Makes the table known and waits for its command. Takes ownership of `table`. */
static gboolean
publish (TpsTableStore *store, TpsTable *table, GError **error)
{
  TpsTableChange creation;

  change_init (&creation, TPS_COMMAND_CREATE_TABLE, &table->spec);
  tps_rw_lock_write (&store->tables_lock);
  table->incarnation = tps_sequencer_admit (store->sequencer, &creation.ordered, NULL);
  g_hash_table_insert (store->tables, table->spec.name, table);
  tps_rw_lock_unlock (&store->tables_lock);
  return change_finish (&creation, store, error);
}

static gboolean
check_durability (const TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  if (spec->durability <= TPS_DURABILITY_NONE || store->durability != 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "spec.durability: %s, but this server has no data directory",
                   tps_durability_name (spec->durability));
}

gboolean
tps_table_store_create (TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  g_auto (TpsTableSpec) resolved = { 0 };
  g_autoptr (TpsTable) present = NULL;
  TpsTable *table;
  gboolean ok;

  tps_table_spec_copy (&resolved, spec);
  if (!tps_table_spec_resolve (&resolved, error) || !check_durability (store, &resolved, error)
      || !tps_sequencer_may_admit (store->sequencer, 0, error))
    return FALSE;
  if (!begin_making (store, resolved.name, &present, error))
    return FALSE;
  /* If the log could not keep the creation for which this one has waited, the server is read-only
   * now. */
  if (present != NULL)
    return check_same (present, &resolved, error)
           && tps_sequencer_may_admit (store->sequencer, 0, error);
  if (resolved.place.device[0] == '\0')
    resolved.place = store->place;
  if (resolved.durability == 0)
    resolved.durability = store->durability;
  table = make_table (store, &resolved, FALSE, error);
  if (table != NULL)
    trace_created (&resolved);
  ok = table != NULL && publish (store, table, error);
  TPS_LOCK_SCOPE (&store->making_lock);
  g_hash_table_remove (store->making, resolved.name);
  tps_cond_broadcast (&store->made);
  return ok;
}

/* Removes the table, and initialises and admits `drop`. Returns the store's reference. If there is
 * no table, returns NULL, and `drop` is not initialised. */
static TpsTable *
take_out (TpsTableStore *store, const gchar *name, TpsTableChange *drop)
{
  TpsTable *table;

  tps_rw_lock_write (&store->tables_lock);
  table = g_hash_table_lookup (store->tables, name);
  if (table != NULL)
    {
      g_hash_table_steal (store->tables, name);
      change_init (drop, TPS_COMMAND_DROP_TABLE, &table->spec);
      tps_sequencer_admit (store->sequencer, &drop->ordered, &table->turns);
    }
  tps_rw_lock_unlock (&store->tables_lock);
  return table;
}

gboolean
tps_table_store_drop (TpsTableStore *store, const gchar *table, GError **error)
{
  TpsTableChange drop;
  TpsTable *dropped;
  gboolean ok;

  if (!tps_sequencer_may_admit (store->sequencer, 0, error))
    return FALSE;
  dropped = take_out (store, table, &drop);
  if (dropped == NULL)
    return tps_fail (error, TPS_ERROR_NOT_FOUND, "table: there is no table %s", table);
  ok = change_finish (&drop, store, error);
  tps_trace (&table_dropped, tps_field_text ("table", table));
  tps_table_unref (dropped);
  return ok;
}

gboolean
tps_table_store_adopt (TpsTableStore *store, TpsTable *table, GError **error)
{
  gboolean is_new;

  tps_rw_lock_write (&store->tables_lock);
  is_new = !g_hash_table_contains (store->tables, table->spec.name);
  if (is_new)
    g_hash_table_insert (store->tables, table->spec.name, tps_table_ref (table));
  tps_rw_lock_unlock (&store->tables_lock);
  if (!is_new)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS, "table %s already exists",
                 table->spec.name);
  return is_new;
}

gboolean
tps_table_store_begin_import (TpsTableStore *store, const gchar *name, GError **error)
{
  g_autoptr (TpsTable) present = NULL;

  TPS_LOCK_SCOPE (&store->making_lock);
  present = find_table (store, name);
  if (present != NULL || g_hash_table_contains (store->making, name)
      || g_hash_table_contains (store->importing, name))
    return tps_fail (error, TPS_ERROR_ALREADY_EXISTS,
                     "table %s already exists, or is being created", name);
  tps_rw_lock_write (&store->tables_lock);
  g_hash_table_insert (store->importing, g_strdup (name), NULL);
  tps_rw_lock_unlock (&store->tables_lock);
  return TRUE;
}

/* The log cannot hold the rows, so the creation is not logged. The log has a gap instead of its
 * record. */
gboolean
tps_table_store_admit_import (TpsTableStore *store, TpsTable *table, GError **error)
{
  TpsTableChange creation;

  if (!tps_sequencer_may_admit (store->sequencer, 0, error))
    return FALSE;
  change_init (&creation, TPS_COMMAND_CREATE_TABLE, &table->spec);
  creation.command.durability = TPS_DURABILITY_NONE;
  tps_mutex_lock (&store->making_lock);
  tps_rw_lock_write (&store->tables_lock);
  table->incarnation = tps_sequencer_admit (store->sequencer, &creation.ordered, NULL);
  tps_table_set_progress (table, (TpsTableProgress) { table->incarnation, table->n_steps });
  g_hash_table_insert (store->importing, g_strdup (table->spec.name), table);
  tps_rw_lock_unlock (&store->tables_lock);
  tps_mutex_unlock (&store->making_lock);
  return change_finish (&creation, store, error);
}

void
tps_table_store_end_import (TpsTableStore *store, const gchar *name, TpsTable *table)
{
  tps_mutex_lock (&store->making_lock);
  tps_rw_lock_write (&store->tables_lock);
  g_hash_table_remove (store->importing, name);
  if (table != NULL)
    g_hash_table_insert (store->tables, table->spec.name, tps_table_ref (table));
  tps_rw_lock_unlock (&store->tables_lock);
  tps_mutex_unlock (&store->making_lock);
  if (table != NULL)
    trace_created (&table->spec);
}

static void
make_budgets (TpsTableStore *store, const TpsBudgets *budgets)
{
  gdouble memory = (gdouble) tps_host_memory_get_total ();

  store->budget = budgets->tables != NULL
                      ? tps_budget_ref (budgets->tables)
                      : tps_budget_new (NULL, "tables", (gsize) (DEFAULT_SHARE * memory));
  store->device_budget = tps_budget_new (NULL, "tables on devices", 0);
  store->answer_budget = tps_budget_ref (budgets->replies);
  store->kept_budget = tps_budget_ref (budgets->kept);
  store->scratch_budget = tps_budget_new (budgets->replies, "lookups and pushes", 0);
}

TpsTableStore *
tps_table_store_new (const TpsTableStoreOptions *options)
{
  TpsTableStore *store = g_new0 (TpsTableStore, 1);
  TpsSequencerOptions own = { .workers = options->workers };

  make_budgets (store, tps_budgets_or_none (options->budgets));
  store->owns_sequencer = options->sequencer == NULL;
  store->sequencer = store->owns_sequencer ? tps_sequencer_new (&own) : options->sequencer;
  if (options->counters != NULL)
    store->counters = tps_counters_ref (options->counters);
  store->pushes = tps_push_window_new (&options->pushes);
  store->answers = tps_buffer_pool_new (store->answer_budget, store->kept_budget, MAX_KEPT_BYTES);
  store->scratch = tps_buffer_pool_new (store->scratch_budget, store->kept_budget, MAX_KEPT_BYTES);
  store->workers = options->workers;
  store->quotas = options->quotas;
  store->place = options->place;
  if (store->place.device[0] == '\0')
    g_strlcpy (store->place.device, HOST, sizeof store->place.device);
  store->durability = options->durability;
  store->keeps_row_lsns = options->keeps_row_lsns;
  store->max_row_bytes_of_call = options->max_row_bytes_of_call > 0
                                     ? options->max_row_bytes_of_call
                                     : TPS_TABLE_STORE_ROW_BYTES_OF_CALL;
  store->find_device = options->find_device != NULL ? options->find_device : tps_device_find;
  tps_mutex_init (&store->making_lock);
  tps_cond_init (&store->made);
  store->making = g_hash_table_new (g_str_hash, g_str_equal);
  store->lanes = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) tps_device_lanes_free);
  tps_rw_lock_init (&store->tables_lock);
  store->tables = g_hash_table_new_full (g_str_hash, g_str_equal, NULL,
                                         (GDestroyNotify) tps_table_unref);
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

void
tps_table_store_set_snapshot_lsn (TpsTableStore *store, gint64 lsn)
{
  store->snapshot_lsn = lsn;
}

TpsTable *
tps_table_store_ref_table (TpsTableStore *store, const gchar *table, GError **error)
{
  TpsTable *found = find_table (store, table);

  if (found == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "table: there is no table %s", table);
  return found;
}

gint64
tps_table_store_get_incarnation (TpsTableStore *store, const gchar *name)
{
  g_autoptr (TpsTable) table = name != NULL ? find_table (store, name) : NULL;

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
  GPtrArray *refs = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_table_unref);
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
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for a list of %u tables",
                     tables->len);
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

gboolean
tps_table_capture_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to,
                        GError **error)
{
  return table->row_store->capture (table, slot, n, to, error);
}

gboolean
tps_table_knows_changed_rows (const TpsTable *table)
{
  return table->row_store->knows_changed_rows;
}

gboolean
tps_table_is_filled_by_pieces (const TpsTable *table)
{
  return table->row_store->fill != NULL;
}

gboolean
tps_table_fill_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from, GError **error)
{
  return table->row_store->fill (table, slot, n, from, error);
}

void
tps_table_begin_at (TpsTable *table, TpsTableProgress progress)
{
  table->row_store->begin_at (table, progress.n_steps);
  tps_table_set_progress (table, progress);
}
