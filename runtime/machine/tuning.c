/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/tuning.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)

/* The base value of a rule. */
typedef enum
{
  BASE_CONSTANT,
  BASE_CORES,
  BASE_L1,
  BASE_L2,
  BASE_LAST_LEVEL, /* the larger of the core's shares of the second and third levels */
  BASE_FETCH,      /* one or two cache lines */
  BASE_PAIRS,      /* 4 if lines are fetched in pairs, otherwise 1 */
  BASE_WAKE_BYTES,
} Base;

/* value = CLAMP (base * times / divided_by, min, max) */
typedef struct
{
  const gchar *name;
  const gchar *unit; /* NULL = bytes */
  gsize offset;      /* in TpsTuning */
  Base base;
  gboolean is_per_core;     /* also divided by the number of cores */
  gsize times, divided_by;  /* 0 = 1 */
  gsize min, max;           /* max 0 = no maximum */
  gboolean is_power_of_two; /* rounded down to a power of two, before the bounds are applied */
  gboolean differs_on_one_core;
  gsize on_one_core;
  const gchar *purpose;
} Rule;

#define FIELD(field) G_STRUCT_OFFSET (TpsTuning, field)

/* A rule with BASE_WAKE_BYTES must follow the rule of wake_bytes, because rules are applied in
 * order. io_threads must be the first rule, see tps_tuning_count_io_threads(). */
static const Rule rules[] = {
  /* With 8 clients on two cores, two threads completed about half as many small calls as eight
   * threads. On one core, two threads completed 1.24 times as many small calls as eight threads. */
  { "io_threads", "threads", FIELD (io_threads), BASE_CORES, .min = 8, .max = 64,
    .differs_on_one_core = TRUE, .on_one_core = 2,
    .purpose = "a thread with few connections sleeps on the core of the client that wakes it" },
  { "workers", "threads", FIELD (workers), BASE_CORES, .min = 1, .max = 1024,
    .purpose = "they compute" },
  { "tls_threads", "threads", FIELD (tls_threads), BASE_CORES, .divided_by = 2, .min = 1,
    .purpose = "handshakes leave half of the cores to calls" },
  /* One core reached half of the memory bandwidth, and three cores reached no more than two cores.
   * Machines with many cores have more memory channels. */
  { "max_helpers", "threads", FIELD (max_helpers), BASE_CORES, .divided_by = 4, .min = 3, .max = 7,
    .purpose = "more threads for one computation get no more memory bandwidth" },

  /* The median round trip of 1 KiB over TCP took 50 us with sleeping and 8 us with spinning if the
   * client and the server ran on separate cores. On one core, it took 7.8 us and 6.1 us,
   * respectively. */
  { "spin_us", "us", FIELD (spin_us), BASE_CONSTANT, .times = 100, .differs_on_one_core = TRUE,
    .purpose = "about two wake-ups of an idle virtual core; each loop adapts to its waits" },
  { "spinning_loops", "loops", FIELD (spinning_loops), BASE_CORES, .divided_by = 2,
    .purpose = "half of the cores stay for work" },
  { "lock_spins", "looks", FIELD (lock_spins), BASE_CONSTANT, .times = 64,
    .differs_on_one_core = TRUE, .on_one_core = 1,
    .purpose = "the owner of a row's lock keeps it for less than a microsecond" },

  /* A wake-up takes about 40 us. Random reads of 256 KiB take about as long, with second-level
   * caches of 0.5 MiB (Zen 3), 1 MiB and 2 MiB. With 128 KiB instead, a Zen 3 with two cores
   * applied only half to three quarters of the pushes per second (//bench:lookup --only=push; 4
   * clients, pushes of 2,000 x 64 floats), because the pushes were no longer short steps.
   * Processors with even smaller caches have slower memory. */
  { "wake_bytes", NULL, FIELD (wake_bytes), BASE_L2, .divided_by = 2, .min = 64 * KIB,
    .max = 256 * KIB, .is_power_of_two = TRUE,
    .purpose = "can be read in about the time of a wake-up; less work is not shared" },
  { "inline_bytes", NULL, FIELD (inline_bytes), BASE_WAKE_BYTES, .divided_by = 4,
    .purpose = "work of this size delays the other connections of an I/O thread for some 10 us" },
  { "part_bytes", NULL, FIELD (part_bytes), BASE_WAKE_BYTES, .divided_by = 2,
    .purpose = "a part of shared work; other jobs wait for no more than one" },
  { "short_step_bytes", NULL, FIELD (short_step_bytes), BASE_WAKE_BYTES, .times = 8,
    .purpose = "one thread applies a push of this size in some 0.2 ms" },
  { "reply_worker_bytes", NULL, FIELD (reply_worker_bytes), BASE_WAKE_BYTES, .times = 4,
    .purpose = "large replies of a round are written by one worker each" },
  { "average_range_bytes", NULL, FIELD (average_range_bytes), BASE_WAKE_BYTES, .times = 4,
    .purpose = "part of an average that a thread takes at a time" },
  { "average_helper_bytes", NULL, FIELD (average_helper_bytes), BASE_WAKE_BYTES, .times = 12,
    .purpose = "of an average, for each helper" },
  { "model_range_bytes", NULL, FIELD (model_range_bytes), BASE_WAKE_BYTES,
    .purpose = "of a model's update, which does more with a byte than an average" },
  { "model_helper_bytes", NULL, FIELD (model_helper_bytes), BASE_WAKE_BYTES, .times = 4,
    .purpose = "of a model's update, for each helper" },
  { "skinny_products", "products", FIELD (skinny_products), BASE_CONSTANT, .times = 200000000,
    .is_per_core = TRUE, .min = 10000000, .max = 100000000,
    .purpose = "above this size, OpenBLAS is faster with its own threads" },
  /* Measured on the gradient of a weight from 32 rows, with a first-level cache of 32 KiB. Packing
   * made it 1.5 to 1.7 times as fast with 1024 columns (128 KiB), but 0.8 times as fast with 256
   * columns (32 KiB). */
  { "pack_rows_bytes", NULL, FIELD (pack_rows_bytes), BASE_L1, .times = 2, .min = 32 * KIB,
    .max = 256 * KIB,
    .purpose = "the rows of a short sum are packed if the cache cannot keep them" },
  /* Measured on the gradient of an input of 4 to 32 rows, with a second-level cache of 512 KiB.
   * Packing made it 0.6 to 0.9 times as fast with a matrix of 256 KiB, 0.8 to 1.3 times with 4 MiB,
   * and 2 to 3 times with 16 MiB. */
  { "pack_matrix_bytes", NULL, FIELD (pack_matrix_bytes), BASE_L2, .times = 4, .min = 1 * MIB,
    .max = 4 * MIB, .purpose = "a matrix that is read in columns is packed if it is larger" },

  /* Measured on 2 cores with 2 MiB of second-level cache each, with whole programs, whose data of
   * this size are not in a cache when they are copied. Copies past the caches changed the CPU time
   * of 3 trainers and their server (//bench:batch_update) by +10 % at 4 MiB, 0 % at 8 MiB, -10 % at
   * 16 MiB and -15 % at 32 MiB. A bucket of 25 MiB took 13 % less (//bench:parameter_server). */
  { "stream_bytes", NULL, FIELD (stream_bytes), BASE_LAST_LEVEL, .times = 3, .min = 1 * MIB,
    .max = 12 * MIB, .purpose = "copies of this size bypass the caches, which cannot keep them" },
  /* Measured with copies of 64 MiB. On a Zen 3, copies of four pages side by side (128 bytes of
   * each page in turn) reached 4.6 GB/s, copies of one page after another 15 GB/s, and memcpy()
   * 8.2 GB/s. On a Xeon, four pages side by side reached 13 GB/s, and memcpy() 8.5 GB/s. */
  { "stream_pages", "pages", FIELD (stream_pages), BASE_PAIRS,
    .purpose = "a copy that bypasses the caches writes them side by side" },
  /* One core alone uses about half of the memory bandwidth. With the help of idle cores, an echo of
   * 16 or 64 MiB through shared memory took 0.6 times as long, with the same amount of work
   * (//bench:transfer). */
  { "shared_stream_bytes", NULL, FIELD (shared_stream_bytes), BASE_LAST_LEVEL, .times = 4,
    .min = 2 * MIB, .max = 16 * MIB, .purpose = "idle cores help to copy this much" },
  /* With 2 MiB of cache and messages of 1 to 64 MiB, 256 KiB was the fastest of the sizes from
   * 200 KiB to 4 MiB. A message of 16 MiB took 1.8 ms, and 2.9 ms with a buffer of 4 MiB. */
  { "unix_buffer_bytes", NULL, FIELD (unix_buffer_bytes), BASE_L2, .divided_by = 4, .min = 64 * KIB,
    .max = 256 * KIB, .is_power_of_two = TRUE,
    .purpose = "the receiver finds the sender's pages in a cache" },
  /* With 1 MiB of cache and two ranks, 256 KiB was 2 to 10 % faster than 128 KiB, because the ranks
   * meet less often. */
  { "reduce_slot_bytes", NULL, FIELD (reduce_slot_bytes), BASE_L2, .divided_by = 4, .min = 64 * KIB,
    .max = 256 * KIB, .is_power_of_two = TRUE,
    .purpose = "most of three slots and their data stays in the cache during a sum" },

  { "digest_block_bytes", NULL, FIELD (digest_block_bytes), BASE_L1, .times = 2, .divided_by = 3,
    .min = 8 * KIB, .max = 64 * KIB, .is_power_of_two = TRUE,
    .purpose = "a block that has been hashed is still in the cache when it is added up" },
  { "row_ahead_bytes", NULL, FIELD (row_ahead_bytes), BASE_L1, .divided_by = 8, .min = 1 * KIB,
    .max = 4 * KIB, .is_power_of_two = TRUE,
    .purpose = "prefetched rows that are copied next; keeps memory busy" },
  { "pool_ahead_bytes", NULL, FIELD (pool_ahead_bytes), BASE_L2, .divided_by = 4, .min = 32 * KIB,
    .max = 512 * KIB, .is_power_of_two = TRUE,
    .purpose = "prefetched rows that are pooled next; at most 48 rows" },
  { "fetch_bytes", NULL, FIELD (fetch_bytes), BASE_FETCH, .min = 32, .max = 512,
    .purpose = "the distance of prefetches of one row" },
  { "row_version_bytes", NULL, FIELD (row_version_bytes), BASE_L2, .divided_by = 16, .min = 8 * KIB,
    .max = 64 * KIB, .is_power_of_two = TRUE,
    .purpose = "the versions of a table's rows take a small part of the cache" },
  { "row_presences", "counters", FIELD (row_presences), BASE_CORES, .times = 2, .min = 32,
    .max = 256, .is_power_of_two = TRUE,
    .purpose = "threads that read a table do not share cache lines" },
};

G_STATIC_ASSERT (G_N_ELEMENTS (rules) == sizeof (TpsTuning) / sizeof (gsize));

const TpsTuning *tps_tuning_chosen;

/* ---- values ---------------------------------------------------------------------------------- */

static gsize
base_of (const Rule *rule, const TpsMachine *machine, const TpsTuning *tuning)
{
  switch (rule->base)
    {
    case BASE_CONSTANT:
      return 1;
    case BASE_CORES:
      return machine->n_cores;
    case BASE_L1:
      return machine->l1_bytes;
    case BASE_L2:
      return machine->l2_bytes;
    case BASE_LAST_LEVEL:
      return MAX (machine->l2_bytes, machine->l3_bytes) / (64 * KIB) * (64 * KIB);
    case BASE_FETCH:
      return machine->line_bytes * (machine->fetches_pairs ? 2 : 1);
    case BASE_PAIRS:
      return machine->fetches_pairs ? 4 : 1;
    case BASE_WAKE_BYTES:
      return tuning->wake_bytes;
    }
  g_return_val_if_reached (0);
}

/* `number` must be above 0. */
static gsize
round_down_to_power_of_two (gsize number)
{
  return (gsize) 1 << (g_bit_storage (number) - 1);
}

static gsize
apply (const Rule *rule, gsize base, guint n_cores)
{
  gsize value = base * MAX (rule->times, 1) / MAX (rule->divided_by, 1);

  if (rule->differs_on_one_core && n_cores == 1)
    return rule->on_one_core;
  if (rule->is_per_core)
    value /= n_cores;
  if (rule->is_power_of_two && value > 0)
    value = round_down_to_power_of_two (value);
  return CLAMP (value, rule->min, rule->max != 0 ? rule->max : G_MAXSIZE);
}

void
tps_tuning_derive (const TpsMachine *machine, TpsTuning *tuning)
{
  *tuning = (TpsTuning) { 0 };
  for (gsize i = 0; i < G_N_ELEMENTS (rules); i++)
    G_STRUCT_MEMBER (gsize, tuning, rules[i].offset) = apply (
        &rules[i], base_of (&rules[i], machine, tuning), machine->n_cores);
}

gsize
tps_tuning_count_io_threads (guint n_cores)
{
  g_assert (rules[0].offset == FIELD (io_threads));
  return apply (&rules[0], n_cores, n_cores);
}

const TpsTuning *
tps_tuning_choose (void)
{
  TpsTuning *tuning = g_new (TpsTuning, 1);
  const TpsTuning *none = NULL;

  tps_tuning_derive (tps_machine_get (), tuning);
  if (__atomic_compare_exchange_n (&tps_tuning_chosen, &none, tuning, FALSE, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE))
    return tuning;
  g_free (tuning); /* another thread was first */
  return none;
}

/* ---- the list -------------------------------------------------------------------------------- */

guint
tps_tuning_count_rows (void)
{
  return G_N_ELEMENTS (rules);
}

/* Returns the largest unit that divides `value`. */
static const gchar *
choose_unit (const Rule *rule, gsize value, gsize *unit_bytes)
{
  *unit_bytes = 1;
  if (rule->unit != NULL)
    return rule->unit;
  if (value % MIB == 0)
    *unit_bytes = MIB;
  else if (value % KIB == 0)
    *unit_bytes = KIB;
  return *unit_bytes == MIB ? "MiB" : *unit_bytes == KIB ? "KiB" : "bytes";
}

static void
append_number (GString *text, const gchar *before, const Rule *rule, gsize value)
{
  gsize unit_bytes;
  const gchar *unit = choose_unit (rule, value, &unit_bytes);

  g_string_append_printf (text, "%s%" G_GSIZE_FORMAT, before, value / unit_bytes);
  if (rule->unit == NULL)
    g_string_append_printf (text, " %s", unit);
}

static gchar *
describe (const Rule *rule)
{
  static const gchar *const bases[] = {
    [BASE_CONSTANT] = "",
    [BASE_CORES] = "cores",
    [BASE_L1] = "L1",
    [BASE_L2] = "L2",
    [BASE_LAST_LEVEL] = "last level",
    [BASE_FETCH] = "cache line, two on Intel",
    [BASE_PAIRS] = "4 on Intel, otherwise 1",
    [BASE_WAKE_BYTES] = "wake_bytes",
  };
  GString *text = g_string_new (bases[rule->base]);

  if (rule->times > 0)
    g_string_append_printf (text, "%s%" G_GSIZE_FORMAT, text->len > 0 ? " * " : "", rule->times);
  if (rule->divided_by > 0)
    g_string_append_printf (text, " / %" G_GSIZE_FORMAT, rule->divided_by);
  if (rule->is_per_core)
    g_string_append (text, " / cores");
  if (rule->is_power_of_two)
    g_string_append (text, " as a power of two");
  if (rule->min > 0)
    append_number (text, ", at least ", rule, rule->min);
  if (rule->max > 0)
    append_number (text, ", at most ", rule, rule->max);
  if (rule->differs_on_one_core)
    append_number (text, "; on one core ", rule, rule->on_one_core);
  return g_string_free (text, FALSE);
}

void
tps_tuning_get_row (const TpsTuning *tuning, guint i, TpsTuningRow *row)
{
  const Rule *rule = &rules[i];
  gsize value = G_STRUCT_MEMBER (gsize, tuning, rule->offset);
  gsize unit_bytes;
  const gchar *unit = choose_unit (rule, value, &unit_bytes);

  *row = (TpsTuningRow) {
    .name = rule->name,
    .value = value / unit_bytes,
    .unit = unit,
    .derived_from = describe (rule),
    .purpose = rule->purpose,
  };
}

void
tps_tuning_row_clear (TpsTuningRow *row)
{
  g_clear_pointer (&row->derived_from, g_free);
}
