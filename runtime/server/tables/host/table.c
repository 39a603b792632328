/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/error.h"
#include "runtime/base/parallel.h"
#include "runtime/machine/tuning.h"

/* The bytes of rows and state for each version of 4 bytes. Versions thus take a 64th of the memory,
 * but at most the tuning value `row_version_bytes`. */
#define BYTES_PER_VERSION 256

/* The bytes of rows and state for each presence. A table has at most as many presences as the
 * tuning value `row_presences`. */
#define BYTES_PER_PRESENCE 2048
#define MIN_PRESENCES 2

/* An estimate of all other memory of a table: entries of hash tables, headers of blocks of memory,
 * and the record of the command that creates the table. */
#define OVERHEAD_BYTES 512

/* Rows or state of at least this size are mapped in whole pages. Smaller blocks come from the
 * heap. */
#define MIN_MAPPED_BYTES ((gsize) 64 << 10)
#define PAGE_BYTES ((gsize) 4096)
#define HUGE_PAGE_BYTES ((gsize) 2 << 20)
#define FILL_BYTES (256 << 10) /* of rows that one thread fills at a time */

/* -- memory -- */

static gsize
round_up (gsize n_bytes, gsize unit)
{
  return n_bytes > G_MAXSIZE - unit ? n_bytes : (n_bytes + unit - 1) / unit * unit;
}

/* Returns the memory that `n_bytes` of rows or state occupy. */
static gsize
cost_of (gsize n_bytes)
{
  return round_up (n_bytes, n_bytes < MIN_MAPPED_BYTES ? TPS_BUFFER_ALIGNMENT : PAGE_BYTES);
}

static gpointer
take_heap (gsize n_bytes)
{
  gpointer memory;

  if (posix_memalign (&memory, TPS_BUFFER_ALIGNMENT, cost_of (n_bytes)) != 0)
    return NULL;
  memset (memory, 0, n_bytes);
  return memory;
}

/* Returns zeroed memory; NULL if the system has none. Memory of at least the size of a huge page
 * begins at the boundary of a huge page: one more huge page is mapped, and the pages before and
 * after the aligned memory are unmapped again. */
static gpointer
map_memory (gsize n_bytes)
{
  gsize slack = n_bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
  guint8 *mapped;
  gsize before;

  if (n_bytes > G_MAXSIZE - slack)
    return NULL;
  mapped = mmap (NULL, n_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return NULL;
  if (slack == 0)
    return mapped;
  before = (HUGE_PAGE_BYTES - (gsize) mapped % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
  if (before > 0)
    munmap (mapped, before);
  n_bytes = cost_of (n_bytes);
  if (slack > before)
    munmap (mapped + before + n_bytes, slack - before);
  madvise (mapped + before, n_bytes, MADV_HUGEPAGE); /* a hint */
  return mapped + before;
}

static gpointer
take_memory (gsize n_bytes)
{
  return n_bytes < MIN_MAPPED_BYTES ? take_heap (n_bytes) : map_memory (n_bytes);
}

static void
release_memory (gpointer memory, gsize n_bytes)
{
  if (n_bytes < MIN_MAPPED_BYTES)
    free (memory);
  else if (memory != NULL)
    munmap (memory, n_bytes);
}

static gsize
rows_bytes (const TpsTable *table)
{
  return (gsize) table->spec.shard.n_rows * table->row_bytes;
}

static gsize
state_bytes (const TpsTable *table)
{
  return (gsize) table->spec.shard.n_rows * table->state_per_row * sizeof (gfloat);
}

static gsize
lsns_bytes (const TpsTableSpec *spec, gboolean keeps_lsns)
{
  return keeps_lsns ? (gsize) spec->shard.n_rows * sizeof (gint64) : 0;
}

static gboolean
take_table_memory (TpsTable *table, gboolean keeps_lsns, GError **error)
{
  gsize n_lsns = lsns_bytes (&table->spec, keeps_lsns);

  if (rows_bytes (table) > 0)
    table->rows = take_memory (rows_bytes (table));
  if (state_bytes (table) > 0)
    table->state = take_memory (state_bytes (table));
  if (n_lsns > 0)
    table->lsns = take_memory (n_lsns);
  if ((rows_bytes (table) == 0 || table->rows != NULL)
      && (state_bytes (table) == 0 || table->state != NULL) && (n_lsns == 0 || table->lsns != NULL))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "table %s: the system has no memory for %" G_GSIZE_FORMAT " bytes", table->spec.name,
               rows_bytes (table) + state_bytes (table));
  return FALSE;
}

/* -- filling -- */

static gsize
rows_per_fill (const TpsTable *table)
{
  return MAX (1, FILL_BYTES / table->row_bytes);
}

static void
fill_part (gpointer user_data, gsize part)
{
  TpsTable *table = user_data;
  gsize begin = part * rows_per_fill (table);
  gsize end = MIN (begin + rows_per_fill (table), (gsize) table->spec.shard.n_rows);

  for (gsize slot = begin; slot < end; slot++)
    tps_initializer_fill_row (&table->spec.initializer,
                              tps_shard_get_row (&table->spec.shard, (gint64) slot),
                              table->spec.dtype, table->rows + slot * table->row_bytes, table->dim);
}

static void
fill (TpsTable *table, TpsWorkerPool *workers)
{
  gsize n_rows = (gsize) table->spec.shard.n_rows;

  if (table->spec.initializer.kind != TPS_INITIALIZER_ZEROS)
    tps_parallel_run (workers, (n_rows + rows_per_fill (table) - 1) / rows_per_fill (table),
                      fill_part, table);
}

/* -- making -- */

/* Returns a power of two, so that a mask selects the lock of a slot. */
static gsize
count_locks (gsize n_bytes, gsize bytes_per_lock, gsize min, gsize max)
{
  return (gsize) 1 << (g_bit_storage (CLAMP (n_bytes / bytes_per_lock, min, max)) - 1);
}

static gsize
count_versions (gsize n_bytes)
{
  return count_locks (n_bytes, BYTES_PER_VERSION, 1,
                      tps_tuning_get ()->row_version_bytes / sizeof (atomic_uint));
}

static gsize
count_presences (gsize n_bytes)
{
  return count_locks (n_bytes, BYTES_PER_PRESENCE, MIN_PRESENCES, tps_tuning_get ()->row_presences);
}

/* Returns the memory of the object, without rows, state and locks. */
static gsize
overhead_of (const TpsTableSpec *spec)
{
  return sizeof (TpsTable) + strlen (spec->name) + OVERHEAD_BYTES;
}

gsize
tps_table_count_bytes (const TpsTableSpec *spec, gboolean keeps_lsns)
{
  gsize n_bytes = tps_table_spec_get_bytes (spec);
  gsize n_state = tps_optimizer_state_per_row (&spec->optimizer, (gsize) spec->dim)
                  * sizeof (gfloat) * (gsize) spec->shard.n_rows;
  gsize payload = cost_of (n_bytes - n_state) + cost_of (n_state)
                  + cost_of (lsns_bytes (spec, keeps_lsns));
  gsize overhead = overhead_of (spec) + count_versions (n_bytes) * sizeof (atomic_uint)
                   + count_presences (n_bytes) * sizeof (TpsTablePresence);

  return payload > G_MAXSIZE - overhead ? G_MAXSIZE : payload + overhead;
}

/* Charges `made`. Only a drop releases memory of tables, so the error has no retry delay. */
static gboolean
charge (TpsCharge *made, TpsBudget *budget, gsize n_bytes, const gchar *table, GError **error)
{
  GError *refusal = NULL;

  made->budget = budget;
  if (tps_charge_add (made, n_bytes, &refusal))
    return TRUE;
  g_prefix_error (&refusal, "table %s: ", table);
  tps_error_set_retry_after_ms (refusal, -1);
  g_propagate_error (error, refusal);
  return FALSE;
}

/* The charges of a table. */
typedef struct
{
  TpsCharge payload, overhead, quota;
} Charges;

static void
charges_clear (Charges *charges)
{
  tps_charge_clear (&charges->payload);
  tps_charge_clear (&charges->overhead);
  tps_charge_clear (&charges->quota);
}

/* Takes all charges of a table, or none if one of them is refused. */
static gboolean
charges_take (Charges *charges, const TpsTableOptions *options, TpsBudget *payload_budget,
              gsize n_payload, gsize n_overhead, const gchar *table, GError **error)
{
  gsize n_all = n_payload > G_MAXSIZE - n_overhead ? G_MAXSIZE : n_payload + n_overhead;

  *charges = (Charges) { 0 };
  if (charge (&charges->quota, options->quota, n_all, table, error)
      && charge (&charges->overhead, options->budget, n_overhead, table, error)
      && charge (&charges->payload, payload_budget, n_payload, table, error))
    return TRUE;
  charges_clear (charges);
  return FALSE;
}

/* Takes ownership of `charges`. */
static TpsTable *
table_alloc (const TpsTableSpec *spec, const Charges *charges)
{
  TpsTable *table = g_new0 (TpsTable, 1);

  tps_refcount_init (&table->refcount);
  tps_mutex_init (&table->progress_lock);
  tps_table_spec_copy (&table->spec, spec);
  table->dim = (gsize) spec->dim;
  table->row_bytes = table->dim * tps_dtype_size (spec->dtype);
  table->state_per_row = tps_optimizer_state_per_row (&spec->optimizer, table->dim);
  table->rounding = tps_table_spec_get_rounding (spec);
  table->payload = charges->payload;
  table->overhead = charges->overhead;
  table->quota = charges->quota;
  table->spec.bytes = (gint64) (charges->payload.n_bytes + charges->overhead.n_bytes);
  return table;
}

static void
init_locks (TpsTable *table)
{
  gsize n_bytes = tps_table_spec_get_bytes (&table->spec);

  table->lock_mask = count_versions (n_bytes) - 1;
  table->versions = g_new (atomic_uint, table->lock_mask + 1);
  for (gsize i = 0; i <= table->lock_mask; i++)
    atomic_init (&table->versions[i], 0);
  atomic_init (&table->n_writers, 0);
  table->presence_mask = count_presences (n_bytes) - 1;
  table->presences = g_aligned_alloc0 (table->presence_mask + 1, sizeof *table->presences,
                                       _Alignof(TpsTablePresence));
}

/* The memory must be freed before its charges are released. */
static void
table_free (TpsTable *table)
{
  Charges charges = { table->payload, table->overhead, table->quota };

  g_clear_pointer (&table->on_device, tps_device_rows_free);
  release_memory (table->rows, rows_bytes (table));
  release_memory (table->state, state_bytes (table));
  if (table->lsns != NULL)
    release_memory (table->lsns, lsns_bytes (&table->spec, TRUE));
  tps_table_numbers_free (table->numbers);
  tps_mutex_clear (&table->progress_lock);
  tps_table_spec_clear (&table->spec);
  g_aligned_free (table->presences);
  g_free (table->versions);
  g_free (table);
  charges_clear (&charges);
}

TpsTable *
tps_table_new (const TpsTableSpec *spec, const TpsTableOptions *options, GError **error)
{
  gsize n_bytes = tps_table_count_bytes (spec, options->keeps_lsns);
  Charges charges;
  TpsTable *table;

  if (!charges_take (&charges, options, options->budget, n_bytes, 0, spec->name, error))
    return NULL;
  table = table_alloc (spec, &charges);
  table->update_row = tps_cpu_optimizer_get (spec->optimizer.kind);
  init_locks (table);
  if (!take_table_memory (table, options->keeps_lsns, error))
    {
      table_free (table);
      return NULL;
    }
  if (!options->is_unfilled)
    fill (table, options->workers);
  return table;
}

TpsTable *
tps_table_new_on_device (const TpsTableSpec *spec, TpsDeviceLanes *lanes, TpsBudget *device_budget,
                         const TpsTableOptions *options, GError **error)
{
  Charges charges;
  TpsTable *table;

  if (!charges_take (&charges, options, device_budget, tps_table_spec_get_bytes (spec),
                     overhead_of (spec), spec->name, error))
    return NULL;
  table = table_alloc (spec, &charges);
  table->on_device = tps_device_rows_new (spec, lanes, options->workers, options->is_unfilled,
                                          error);
  if (table->on_device != NULL)
    return table;
  table_free (table);
  return NULL;
}

void
tps_table_set_progress (TpsTable *table, TpsTableProgress progress)
{
  tps_mutex_lock (&table->progress_lock);
  table->progress = progress;
  tps_mutex_unlock (&table->progress_lock);
}

TpsTableProgress
tps_table_get_progress (TpsTable *table)
{
  TpsTableProgress progress;

  tps_mutex_lock (&table->progress_lock);
  progress = table->progress;
  tps_mutex_unlock (&table->progress_lock);
  return progress;
}

TpsTable *
tps_table_ref (TpsTable *table)
{
  tps_refcount_inc (&table->refcount);
  return table;
}

void
tps_table_unref (TpsTable *table)
{
  if (tps_refcount_dec (&table->refcount))
    table_free (table);
}
