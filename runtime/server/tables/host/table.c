/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows under sequence locks, and a faster way to read them while there is no writer.
 *
 * Sequence locks. Each row has a version, which it shares with other rows (slot modulo the number
 * of versions). A writer makes the version odd, changes the row, and sets the version to the next
 * even number. A reader notes an even version, copies the row, and accepts the copy if the version
 * is still the same. Readers thus write no shared memory and never delay a writer. After MAX_TRIES
 * failures, a reader takes the lock like a writer, and thus waits for the update of one row.
 *
 * Memory model. The words of rows are atomic: a writer stores them with release, and a reader loads
 * them with acquire. A reader that loads a word of an update therefore also sees the odd version
 * that preceded the word, and discards the copy. The acquire loads also prevent the second load of
 * the version from moving before them [Boehm: Can seqlocks get along with programming language
 * memory models?, 2012]. The lock admits one writer at a time, so a writer reads rows and state as
 * plain memory.
 *
 * A version returns to the same number after 2^31 updates. If a reader were suspended in the middle
 * of a row for exactly this number of updates, it would accept a wrong copy.
 *
 * Quiet reads. Atomic words must be copied one by one, whereas plain memory can be added up in
 * vectors. A reader increments a counter of readers (in a cache line that few threads share), and
 * then checks for writers. A writer increments the counter of writers, and then checks for readers.
 * Both use sequential consistency, so at least one of them sees the other. A reader that sees a
 * writer does not wait, but reads under the sequence locks. A writer that sees a reader waits for
 * the end of the quiet read, which takes a few microseconds. Later readers see the writer, so it
 * does not wait for them. */

#include "runtime/server/tables/host/table.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/stochastic_round.h"
#include "runtime/machine/tuning.h"

/* -- table numbers -- */

/* The limit is lower than that of counters: a histogram is larger than a counter, and an exporter
 * writes it as about twenty lines. */
#define MAX_TIMED_TABLES 200

/* The metrics of the lookups in one table, or of the pushes to it. */
typedef struct
{
  TpsCounter *requests;
  TpsCounter *rows;
  TpsCounter *bytes;
  TpsHistogram *durations;
} Numbers;

struct TpsTableNumbers
{
  TpsCounters *counters;
  Numbers lookups;
  Numbers pushes;
  TpsGauge *bytes;
  TpsGauge *rows;
  gint64 n_bytes;
  gint64 n_rows;
};

typedef struct
{
  TpsFamily requests, rows, bytes, durations;
} Families;

static const Families of_lookups = {
  .requests = TPS_FAMILY (COUNTER, "table_lookups_total",
                          "Lookups in a table; one request may hold several.",
                          .labels = { "table" }),
  .rows = TPS_FAMILY (COUNTER, "table_lookup_rows_total",
                      "Rows that lookups read, each as often as it was named.",
                      .labels = { "table" }),
  .bytes = TPS_FAMILY (COUNTER, "table_lookup_bytes_total",
                       "Bytes of the vectors and rows that lookups returned.",
                       .labels = { "table" }),
  .durations = TPS_FAMILY (
      HISTOGRAM, "table_lookup_duration_seconds",
      "Time from the arrival of a request to the end of its lookups, counted once for "
      "each lookup.",
      .labels = { "table" }, .max_series = MAX_TIMED_TABLES),
};

static const Families of_pushes = {
  .requests = TPS_FAMILY (
      COUNTER, "table_pushes_total",
      "Gradients and assignments that changed a table; one request may hold several.",
      .labels = { "table" }),
  .rows = TPS_FAMILY (COUNTER, "table_push_rows_total",
                      "Rows that pushes changed, each as often as it was named.",
                      .labels = { "table" }),
  .bytes = TPS_FAMILY (COUNTER, "table_push_bytes_total",
                       "Bytes of the gradients and rows of pushes.", .labels = { "table" }),
  .durations = TPS_FAMILY (
      HISTOGRAM, "table_push_duration_seconds",
      "Time from the arrival of a request to the end of its pushes, counted once for "
      "each push.",
      .labels = { "table" }, .max_series = MAX_TIMED_TABLES),
};

static const TpsFamily bytes = TPS_FAMILY (
    GAUGE, "table_bytes", "Memory of a table: rows, optimizer state and bookkeeping.",
    .labels = { "table" });
static const TpsFamily rows = TPS_FAMILY (
    GAUGE, "table_rows", "Rows of a table that this server holds.", .labels = { "table" });

static void
use_numbers (Numbers *numbers, TpsCounters *counters, const Families *families, const gchar *table)
{
  numbers->requests = tps_counters_use_counter (counters, &families->requests, table, NULL);
  numbers->rows = tps_counters_use_counter (counters, &families->rows, table, NULL);
  numbers->bytes = tps_counters_use_counter (counters, &families->bytes, table, NULL);
  numbers->durations = tps_counters_use_histogram (counters, &families->durations, table, NULL);
}

static void
end_numbers (const Numbers *numbers, TpsCounters *counters)
{
  tps_counters_end_use (counters, numbers->requests);
  tps_counters_end_use (counters, numbers->rows);
  tps_counters_end_use (counters, numbers->bytes);
  tps_counters_end_use (counters, numbers->durations);
}

TpsTableNumbers *
tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec)
{
  TpsTableNumbers *numbers;

  if (counters == NULL)
    return NULL;
  numbers = g_new0 (TpsTableNumbers, 1);
  numbers->counters = tps_counters_ref (counters);
  use_numbers (&numbers->lookups, counters, &of_lookups, spec->name);
  use_numbers (&numbers->pushes, counters, &of_pushes, spec->name);
  numbers->bytes = tps_counters_use_gauge (counters, &bytes, spec->name, NULL);
  numbers->rows = tps_counters_use_gauge (counters, &rows, spec->name, NULL);
  numbers->n_bytes = spec->bytes;
  numbers->n_rows = spec->shard.n_rows;
  tps_gauge_add (numbers->bytes, numbers->n_bytes);
  tps_gauge_add (numbers->rows, numbers->n_rows);
  return numbers;
}

/* Gauges are changed by differences, because all tables beyond the limit of series share a
 * gauge. */
static void
numbers_free (TpsTableNumbers *numbers)
{
  if (numbers == NULL)
    return;
  tps_gauge_add (numbers->bytes, -numbers->n_bytes);
  tps_gauge_add (numbers->rows, -numbers->n_rows);
  end_numbers (&numbers->lookups, numbers->counters);
  end_numbers (&numbers->pushes, numbers->counters);
  tps_counters_end_use (numbers->counters, numbers->bytes);
  tps_counters_end_use (numbers->counters, numbers->rows);
  tps_counters_unref (numbers->counters);
  g_free (numbers);
}

static void
add_work (const Numbers *numbers, const TpsTableWork *work)
{
  tps_counter_add (numbers->requests, 1);
  tps_counter_add (numbers->rows, work->n_rows);
  tps_counter_add (numbers->bytes, work->n_bytes);
  if (work->duration_ns >= 0)
    tps_histogram_record (numbers->durations, work->duration_ns);
}

void
tps_table_numbers_add_lookup (TpsTableNumbers *numbers, const TpsTableWork *work)
{
  if (numbers != NULL)
    add_work (&numbers->lookups, work);
}

void
tps_table_numbers_add_push (TpsTableNumbers *numbers, const TpsTableWork *work)
{
  if (numbers != NULL)
    add_work (&numbers->pushes, work);
}

/* -- table pace -- */

/* Commands N and N + 2 use the same entry, because their numbers are both odd or both even. Command
 * N + 2 begins after command N has ended. A reader that waits for command N and finds a later
 * number in the entry therefore need not wait.
 *
 * A writer resets `slot` before it sets `number`. A reader reads `number` first and `slot` second.
 * If the reader finds the awaited number N, `slot` belongs to command N, or already to command
 * N + 2. Command N + 2 follows the reader, which is command N + 1. Its slot is therefore not beyond
 * the row for which the reader waits, and cannot end the wait.
 */

static TpsTablePace *
entry_of (TpsTablePace *pace, guint64 number)
{
  return &pace[number % 2];
}

gint64
tps_table_pace_wait (TpsTablePace *pace, const TpsTurn *turn, gint64 slot)
{
  guint64 before = turn->number - 1;
  TpsTablePace *entry = entry_of (pace, before);

  TPS_PLANT ("push-overtakes", return G_MAXINT64);
  if (!turn->ordered->is_following)
    return G_MAXINT64;
  for (guint n_spins = 1;; n_spins++)
    {
      guint64 number = atomic_load_explicit (&entry->number, memory_order_acquire);
      gint64 done = atomic_load_explicit (&entry->slot, memory_order_acquire);

      if (number > before)
        return G_MAXINT64;
      if (number == before && done > slot)
        return done;
      if (n_spins % tps_tuning_get ()->lock_spins == 0)
        sched_yield ();
    }
}

void
tps_table_pace_begin (TpsTablePace *pace, const TpsTurn *turn)
{
  TpsTablePace *entry = entry_of (pace, turn->number);

  atomic_store_explicit (&entry->slot, 0, memory_order_relaxed);
  atomic_store_explicit (&entry->number, turn->number, memory_order_release);
}

void
tps_table_pace_publish (TpsTablePace *pace, const TpsTurn *turn, gint64 slot)
{
  atomic_store_explicit (&entry_of (pace, turn->number)->slot, slot, memory_order_release);
}

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

/* The charges of a table. */
typedef struct
{
  TpsCharge payload, overhead, quota;
} Charges;

#define CACHE_LINE 64

/* The maximum number of rows by which prefetches precede reads. */
#define MAX_AHEAD_ROWS 32

/* The number of failed reads of one row before the lock is taken. */
#define MAX_TRIES 32

/* Copy rows in atomic words. The atomic builtins of GCC and Clang accept memory of any declared
 * type, so other code may access the same rows as FLOAT32. */
#define DEFINE_WORDS(Word)                                                        \
  static inline void load_##Word (guint8 *to, guint8 *from, gsize n_bytes)        \
  {                                                                               \
    _Atomic (Word) *words = (_Atomic (Word) *) (gpointer) from;                   \
                                                                                  \
    _Pragma ("GCC unroll 8") for (gsize i = 0; i < n_bytes / sizeof (Word); i++)  \
    {                                                                             \
      Word word = atomic_load_explicit (&words[i], memory_order_acquire);         \
                                                                                  \
      memcpy (to + i * sizeof word, &word, sizeof word);                          \
    }                                                                             \
  }                                                                               \
  static inline void store_##Word (guint8 *to, const guint8 *from, gsize n_bytes) \
  {                                                                               \
    _Atomic (Word) *words = (_Atomic (Word) *) (gpointer) to;                     \
                                                                                  \
    _Pragma ("GCC unroll 8") for (gsize i = 0; i < n_bytes / sizeof (Word); i++)  \
    {                                                                             \
      Word word;                                                                  \
                                                                                  \
      memcpy (&word, from + i * sizeof word, sizeof word);                        \
      atomic_store_explicit (&words[i], word, memory_order_release);              \
    }                                                                             \
  }

DEFINE_WORDS (guint64)
DEFINE_WORDS (guint32)
DEFINE_WORDS (guint16)

/* The rows to copy, followed by the rows that will be needed next. */
typedef struct
{
  const gint64 *slots;
  gint64 base;
  gsize n_known; /* including the rows that will be needed next */
} RowList;

static gsize
cost_of (gsize n_bytes)
{
  gsize unit = n_bytes < MIN_MAPPED_BYTES ? TPS_BUFFER_ALIGNMENT : PAGE_BYTES;

  return n_bytes > G_MAXSIZE - unit ? n_bytes : (n_bytes + unit - 1) / unit * unit;
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
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "table %s: the system has no memory for %" G_GSIZE_FORMAT " bytes",
                   table->spec.name, rows_bytes (table) + state_bytes (table));
}

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

/* Returns the charge for a table in the host's memory: rows, state, LSNs of rows if they are kept,
 * and the object itself. */
static gsize
count_bytes (const TpsTableSpec *spec, gboolean keeps_lsns)
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
  numbers_free (table->numbers);
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
  gsize n_bytes = count_bytes (spec, options->keeps_lsns);
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
  if (!options->is_unfilled && spec->initializer.kind != TPS_INITIALIZER_ZEROS)
    tps_table_fill_initial_rows (spec, 0, (gsize) spec->shard.n_rows, table->rows,
                                 options->workers);
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
  TPS_LOCK_SCOPE (&table->progress_lock);
  table->progress = progress;
}

TpsTableProgress
tps_table_get_progress (TpsTable *table)
{
  TPS_LOCK_SCOPE (&table->progress_lock);
  return table->progress;
}

TPS_DEFINE_REF (TpsTable, tps_table)

void
tps_table_unref (TpsTable *table)
{
  if (tps_refcount_dec (&table->refcount))
    table_free (table);
}

/* Copies in the largest words that divide the row. Rows of whole cache lines are copied line by
 * line, because a copy of constant size is unrolled. */
static inline void
load_row (guint8 *to, guint8 *from, gsize n_bytes)
{
  if (n_bytes % CACHE_LINE == 0)
    for (gsize i = 0; i < n_bytes; i += CACHE_LINE)
      load_guint64 (to + i, from + i, CACHE_LINE);
  else if (n_bytes % sizeof (guint64) == 0)
    load_guint64 (to, from, n_bytes);
  else if (n_bytes % sizeof (guint32) == 0)
    load_guint32 (to, from, n_bytes);
  else
    load_guint16 (to, from, n_bytes);
}

static inline void
store_row (guint8 *to, const guint8 *from, gsize n_bytes)
{
  if (n_bytes % sizeof (guint64) == 0)
    store_guint64 (to, from, n_bytes);
  else if (n_bytes % sizeof (guint32) == 0)
    store_guint32 (to, from, n_bytes);
  else
    store_guint16 (to, from, n_bytes);
}

/* Waits between two checks of a lock. The holder of the lock normally releases it after one row, so
 * the caller spins. The holder may have been interrupted, so the caller yields the processor from
 * time to time. */
static void
wait_a_little (guint n_spins)
{
  if ((n_spins + 1) % tps_tuning_get ()->lock_spins == 0)
    sched_yield ();
}

/* Locks the version, and returns the argument for unlock_version(). */
static guint
lock_version (atomic_uint *version)
{
  for (guint n_spins = 0;; n_spins++)
    {
      guint even = atomic_load_explicit (version, memory_order_relaxed);

      if (even % 2 == 0
          && atomic_compare_exchange_weak_explicit (version, &even, even + 1, memory_order_acquire,
                                                    memory_order_relaxed))
        return even + 2;
      wait_a_little (n_spins);
    }
}

static void
unlock_version (atomic_uint *version, guint next)
{
  atomic_store_explicit (version, next, memory_order_release);
}

static inline gboolean
try_read_row (atomic_uint *version, guint8 *to, guint8 *from, gsize n_bytes)
{
  guint before = atomic_load_explicit (version, memory_order_acquire);

  if (before % 2 != 0)
    return FALSE;
  load_row (to, from, n_bytes);
  return atomic_load_explicit (version, memory_order_relaxed) == before;
}

static void
read_contended_row (atomic_uint *version, guint8 *to, guint8 *from, gsize n_bytes)
{
  guint next;

  for (guint n_tries = 0; n_tries < MAX_TRIES; n_tries++)
    if (try_read_row (version, to, from, n_bytes))
      return;
  next = lock_version (version);
  load_row (to, from, n_bytes);
  unlock_version (version, next);
}

static atomic_uint *
my_presence (TpsTable *table)
{
  static atomic_uint n_threads;
  static _Thread_local guint number; /* of this thread, from 1 */

  if (number == 0)
    number = atomic_fetch_add_explicit (&n_threads, 1, memory_order_relaxed) + 1;
  return &table->presences[(number - 1) & table->presence_mask].n_readers;
}

gboolean
tps_table_begin_quiet_read (TpsTable *table)
{
  atomic_uint *presence = my_presence (table);

  /* This first check writes no shared memory. Only the second check excludes writers. */
  if (atomic_load_explicit (&table->n_writers, memory_order_relaxed) > 0)
    return FALSE;
  atomic_fetch_add (presence, 1);
  if (atomic_load (&table->n_writers) == 0)
    return TRUE;
  atomic_fetch_sub_explicit (presence, 1, memory_order_release);
  return FALSE;
}

void
tps_table_end_quiet_read (TpsTable *table)
{
  atomic_fetch_sub_explicit (my_presence (table), 1, memory_order_release);
}

void
tps_table_begin_updates (TpsTable *table)
{
  atomic_fetch_add (&table->n_writers, 1);
  for (gsize i = 0; i <= table->presence_mask; i++)
    for (guint n_spins = 0; atomic_load (&table->presences[i].n_readers) > 0; n_spins++)
      wait_a_little (n_spins);
}

void
tps_table_end_updates (TpsTable *table)
{
  atomic_fetch_sub_explicit (&table->n_writers, 1, memory_order_release);
}

static inline void
prefetch_row (const guint8 *row, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i += CACHE_LINE)
    __builtin_prefetch (row + i);
}

static gsize
rows_ahead (const TpsTable *table)
{
  return CLAMP (tps_tuning_get ()->row_ahead_bytes / table->row_bytes, 1, MAX_AHEAD_ROWS);
}

static inline gsize
slot_at (const RowList *list, gsize i)
{
  return (gsize) (list->slots[i] - list->base);
}

static inline void
prefetch_at (const TpsTable *table, const RowList *list, gsize i)
{
  if (i < list->n_known)
    prefetch_row (table->rows + slot_at (list, i) * table->row_bytes, table->row_bytes);
}

static void
copy_quiet_rows (TpsTable *table, const RowList *list, gsize begin, gsize end, guint8 *to)
{
  gsize row_bytes = table->row_bytes;
  gsize ahead = rows_ahead (table);

  for (gsize i = begin; i < end; i++, to += row_bytes)
    {
      prefetch_at (table, list, i + ahead);
      memcpy (to, table->rows + slot_at (list, i) * row_bytes, row_bytes);
    }
}

static void
copy_locked_rows (TpsTable *table, const RowList *list, gsize begin, gsize end, guint8 *to)
{
  gsize row_bytes = table->row_bytes;
  gsize ahead = rows_ahead (table);

  for (gsize i = begin; i < end; i++, to += row_bytes)
    {
      gsize slot = slot_at (list, i);
      atomic_uint *version = &table->versions[slot & table->lock_mask];
      guint8 *from = table->rows + slot * row_bytes;

      prefetch_at (table, list, i + ahead);
      if (!try_read_row (version, to, from, row_bytes))
        read_contended_row (version, to, from, row_bytes);
    }
}

void
tps_table_read_rows (TpsTable *table, const gint64 *slots, gint64 base, gsize n, gsize n_ahead,
                     gpointer to)
{
  RowList list = { .slots = slots, .base = base, .n_known = n + n_ahead };
  gsize n_quiet = MAX (1, TPS_TABLE_QUIET_BYTES / table->row_bytes);

  for (gsize begin = 0, end; begin < n; begin = end)
    {
      guint8 *copy = (guint8 *) to + begin * table->row_bytes;

      end = MIN (n, begin + n_quiet);
      if (tps_table_begin_quiet_read (table))
        {
          copy_quiet_rows (table, &list, begin, end, copy);
          tps_table_end_quiet_read (table);
        }
      else
        copy_locked_rows (table, &list, begin, end, copy);
    }
}

gsize
tps_table_get_max_copied_rows (const TpsTable *table)
{
  gsize n_bytes = table->row_bytes + table->state_per_row * sizeof (gfloat) + sizeof (gint64);

  return MAX (1, TPS_TABLE_QUIET_BYTES / n_bytes);
}

/* Copies rows that have no writer. `i` is the index of the first row in the copy. */
static void
copy_still_rows (const TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to, gsize i)
{
  gsize state_per_row = table->state_per_row;

  memcpy (to->rows + i * table->row_bytes, table->rows + slot * table->row_bytes,
          n * table->row_bytes);
  if (state_per_row > 0)
    memcpy (to->state + i * state_per_row, table->state + slot * state_per_row,
            n * state_per_row * sizeof (gfloat));
  if (table->lsns != NULL)
    memcpy (to->lsns + i, table->lsns + slot, n * sizeof (gint64));
}

void
tps_table_copy_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to)
{
  if (tps_table_begin_quiet_read (table))
    {
      copy_still_rows (table, slot, n, to, 0);
      tps_table_end_quiet_read (table);
      return;
    }
  for (gsize i = 0; i < n; i++)
    {
      atomic_uint *version = &table->versions[(slot + i) & table->lock_mask];
      guint next = lock_version (version);

      copy_still_rows (table, slot + i, 1, to, i);
      unlock_version (version, next);
    }
}

gsize
tps_table_find_changed_rows (TpsTable *table, gsize slot, gsize n, gint64 lsn, guint8 *bits)
{
  gboolean is_quiet = tps_table_begin_quiet_read (table);
  gsize n_changed = 0;

  for (gsize end = slot + n; slot < end; slot++)
    {
      atomic_uint *version = &table->versions[slot & table->lock_mask];
      guint next = is_quiet ? 0 : lock_version (version);
      gboolean is_changed = table->lsns[slot] > lsn;

      bits[slot / 8] |= (guint8) (is_changed << slot % 8);
      n_changed += is_changed;
      if (!is_quiet)
        unlock_version (version, next);
    }
  if (is_quiet)
    tps_table_end_quiet_read (table);
  return n_changed;
}

/* Returns the LSN of the row's last change. If there was none, returns the LSN of the table's
 * creation. */
static gint64
lsn_of (const TpsTable *table, gsize slot)
{
  return MAX (table->lsns[slot], table->incarnation);
}

static void
read_with_lsns (TpsTable *table, const gint64 *slots, gint64 base, gsize n, guint8 *to,
                gint64 *lsns)
{
  gboolean is_quiet = tps_table_begin_quiet_read (table);

  for (gsize i = 0; i < n; i++)
    {
      gsize slot = (gsize) (slots[i] - base);
      atomic_uint *version = &table->versions[slot & table->lock_mask];
      guint next = is_quiet ? 0 : lock_version (version);

      memcpy (to + i * table->row_bytes, table->rows + slot * table->row_bytes, table->row_bytes);
      lsns[i] = lsn_of (table, slot);
      if (!is_quiet)
        unlock_version (version, next);
    }
  if (is_quiet)
    tps_table_end_quiet_read (table);
}

void
tps_table_read_rows_with_lsns (TpsTable *table, const gint64 *slots, gint64 base, gsize n,
                               gpointer to, gint64 *lsns)
{
  gsize n_once = MAX (1, TPS_TABLE_QUIET_BYTES / (table->row_bytes + sizeof (gint64)));

  for (gsize i = 0; i < n; i += n_once)
    read_with_lsns (table, slots + i, base, MIN (n_once, n - i),
                    (guint8 *) to + i * table->row_bytes, lsns + i);
}

void
tps_table_prefetch_update (const TpsTable *table, gint64 slot)
{
  const guint8 *row = table->rows + (gsize) slot * table->row_bytes;

  __builtin_prefetch (&table->versions[(gsize) slot & table->lock_mask], 1);
  for (gsize i = 0; i < table->row_bytes; i += CACHE_LINE)
    __builtin_prefetch (row + i, 1);
  for (gsize i = 0; i < table->state_per_row; i += CACHE_LINE / sizeof (gfloat))
    __builtin_prefetch (table->state + (gsize) slot * table->state_per_row + i, 1);
  if (table->lsns != NULL)
    __builtin_prefetch (table->lsns + slot, 1);
}

void
tps_table_update_row (TpsTable *table, const TpsOptimizerStep *step, gint64 lsn, gint64 slot,
                      const gfloat *gradient, gfloat *scratch)
{
  gsize dim = table->dim;
  TpsDType dtype = table->spec.dtype;
  atomic_uint *version = &table->versions[(gsize) slot & table->lock_mask];
  guint8 *row = table->rows + (gsize) slot * table->row_bytes;
  gfloat *state = table->state_per_row > 0 ? table->state + (gsize) slot * table->state_per_row
                                           : NULL;
  gpointer rounded = dtype == TPS_DTYPE_FLOAT32 ? scratch : scratch + dim;
  guint next;

  TPS_PLANT ("row-lsn-ignored", table->lsns[slot] = 0);
  /* Turns admit one writer of a row at a time, so its LSN needs no lock here. */
  if (table->lsns != NULL && table->lsns[slot] >= lsn)
    return;
  next = lock_version (version);
  tps_cpu_cast (TPS_DTYPE_FLOAT32, scratch, dtype, row, dim);
  table->update_row (step, scratch, gradient, state, dim);
  if (dtype != TPS_DTYPE_FLOAT32)
    tps_cpu_round_row (dtype, rounded, scratch, dim, &table->rounding, step->step, (gsize) slot);
  store_row (row, rounded, table->row_bytes);
  if (table->lsns != NULL)
    table->lsns[slot] = lsn;
  unlock_version (version, next);
}

void
tps_table_assign_row (TpsTable *table, gint64 lsn, gint64 slot, TpsDType dtype,
                      gconstpointer values, gint64 as_of_lsn, gfloat *scratch)
{
  atomic_uint *version = &table->versions[(gsize) slot & table->lock_mask];
  guint8 *row = table->rows + (gsize) slot * table->row_bytes;
  guint next;

  if (table->lsns != NULL
      && (table->lsns[slot] >= lsn || (as_of_lsn != 0 && lsn_of (table, (gsize) slot) > as_of_lsn)))
    return;
  /* Received values may be unaligned. They are converted before the lock is taken. */
  if (dtype == table->spec.dtype)
    memcpy (scratch, values, table->row_bytes);
  else
    tps_cpu_cast (table->spec.dtype, scratch, dtype, values, table->dim);
  next = lock_version (version);
  store_row (row, (const guint8 *) scratch, table->row_bytes);
  if (table->lsns != NULL)
    table->lsns[slot] = lsn;
  unlock_version (version, next);
}
