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
#include <string.h>

#include "runtime/base/planted_bug.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/stochastic_round.h"
#include "runtime/machine/tuning.h"

#define CACHE_LINE 64

/* The maximum number of rows by which prefetches precede reads. */
#define MAX_AHEAD_ROWS 32

/* The number of failed reads of one row before the lock is taken. */
#define MAX_TRIES 32

/* -- the words of a row -- */

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

/* -- locks -- */

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

/* -- quiet reads -- */

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

/* -- rows -- */

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

/* The rows to copy, followed by the rows that will be needed next. */
typedef struct
{
  const gint64 *slots;
  gint64 base;
  gsize n_known; /* including the rows that will be needed next */
} RowList;

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

/* ---- whole rows with state and LSN ----------------------------------------------------------- */

/* State is plain memory, so it must be read in a quiet read or under the lock of the row. */

static gsize
copied_row_bytes (const TpsTable *table)
{
  return table->row_bytes + table->state_per_row * sizeof (gfloat) + sizeof (gint64);
}

gsize
tps_table_get_max_copied_rows (const TpsTable *table)
{
  return MAX (1, TPS_TABLE_QUIET_BYTES / copied_row_bytes (table));
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

static gsize
mark_if_changed (const TpsTable *table, gsize slot, gint64 lsn, guint8 *bits)
{
  gboolean is_changed = table->lsns[slot] > lsn;

  bits[slot / 8] |= (guint8) (is_changed << slot % 8);
  return is_changed ? 1 : 0;
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

      n_changed += mark_if_changed (table, slot, lsn, bits);
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

/* ---- updates --------------------------------------------------------------------------------- */

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
