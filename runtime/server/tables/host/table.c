/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table.h"

#include <sys/mman.h>

#include "runtime/base/parallel.h"
#include "runtime/base/error.h"

/* A version for so many bytes of rows and state, so that versions take a 64th of the memory, but not more of them than a
 * second-level cache holds beside other things. */
#define BYTES_PER_VERSION 256
#define MAX_VERSIONS (1 << 14)

#define HUGE_PAGE_BYTES ((gsize) 2 << 20)
#define FILL_BYTES (256 << 10)

/* -- memory -- */

/* Zeroed, from the start of a huge page where it is as large as one. NULL when there is none. */
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
  n_bytes = (n_bytes + 4095) / 4096 * 4096;
  if (slack > before)
    munmap (mapped + before + n_bytes, slack - before);
  madvise (mapped + before, n_bytes, MADV_HUGEPAGE); /* a hint */
  return mapped + before;
}

static void
unmap_memory (gpointer memory, gsize n_bytes)
{
  if (memory != NULL)
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

static gboolean
map_table (TpsTable *table, GError **error)
{
  if (rows_bytes (table) > 0)
    table->rows = map_memory (rows_bytes (table));
  if (state_bytes (table) > 0)
    table->state = map_memory (state_bytes (table));
  if ((rows_bytes (table) == 0 || table->rows != NULL)
      && (state_bytes (table) == 0 || table->state != NULL))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "table %s: the system has no memory for %" G_GINT64_FORMAT " bytes",
               table->spec.name, table->spec.bytes);
  return FALSE;
}

/* -- making and filling -- */

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

/* A power of two. */
static gsize
count_versions (const TpsTable *table)
{
  gsize n_versions = CLAMP ((gsize) table->spec.bytes / BYTES_PER_VERSION, 1, MAX_VERSIONS);

  return (gsize) 1 << (g_bit_storage (n_versions) - 1);
}

static TpsTable *
table_alloc (const TpsTableSpec *spec, TpsMemoryLimit *limit)
{
  TpsTable *table = g_new0 (TpsTable, 1);

  tps_refcount_init (&table->refcount);
  tps_table_spec_copy (&table->spec, spec);
  table->spec.bytes = (gint64) tps_table_spec_get_bytes (spec);
  table->limit = limit;
  table->dim = (gsize) spec->dim;
  table->row_bytes = table->dim * tps_dtype_size (spec->dtype);
  return table;
}

static void
init_locks (TpsTable *table)
{
  table->lock_mask = count_versions (table) - 1;
  table->versions = g_new (atomic_uint, table->lock_mask + 1);
  for (gsize i = 0; i <= table->lock_mask; i++)
    atomic_init (&table->versions[i], 0);
  atomic_init (&table->n_steps, 0);
  atomic_init (&table->n_writers, 0);
  table->presences = g_aligned_alloc0 (TPS_TABLE_PRESENCES, sizeof *table->presences,
                                       _Alignof(TpsTablePresence));
}

static void
table_free (TpsTable *table)
{
  g_clear_pointer (&table->on_device, tps_device_rows_free);
  unmap_memory (table->rows, rows_bytes (table));
  unmap_memory (table->state, state_bytes (table));
  tps_table_spec_clear (&table->spec);
  g_aligned_free (table->presences);
  g_free (table->versions);
  g_free (table);
}

/* Gives back what was counted too. */
static void
table_release (TpsTable *table)
{
  TpsMemoryLimit *limit = table->limit;
  gsize n_bytes = (gsize) table->spec.bytes;

  table_free (table);
  tps_memory_limit_release (limit, n_bytes);
}

TpsTable *
tps_table_new (const TpsTableSpec *spec, TpsMemoryLimit *limit, TpsWorkerPool *workers,
               GError **error)
{
  TpsTable *table;

  if (!tps_memory_limit_reserve (limit, spec->name, tps_table_spec_get_bytes (spec), error))
    return NULL;
  table = table_alloc (spec, limit);
  table->optimizer = tps_cpu_optimizer_get (spec->optimizer.kind);
  table->state_per_row = tps_optimizer_state_per_row (&spec->optimizer, table->dim);
  init_locks (table);
  if (map_table (table, error))
    {
      fill (table, workers);
      return table;
    }
  table_release (table);
  return NULL;
}

TpsTable *
tps_table_new_on_device (const TpsTableSpec *spec, TpsDeviceLanes *lanes, TpsMemoryLimit *limit,
                         TpsWorkerPool *workers, GError **error)
{
  TpsTable *table;

  if (!tps_memory_limit_reserve (limit, spec->name, tps_table_spec_get_bytes (spec), error))
    return NULL;
  table = table_alloc (spec, limit);
  table->on_device = tps_device_rows_new (spec, lanes, workers, error);
  if (table->on_device != NULL)
    return table;
  table_release (table);
  return NULL;
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
    table_release (table);
}
