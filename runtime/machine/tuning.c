/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/tuning.h"

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)

#define MIN_PRESENCES 32
#define MAX_PRESENCES 256
#define LINE_BYTES 64

#define FIELD(field) G_STRUCT_OFFSET (TpsTuning, field)

/* The values that depend on the machine. tps_tuning_derive() has the rules. */
static const struct
{
  const gchar *name;
  const gchar *unit;
  gsize offset; /* in TpsTuning */
  const gchar *rule;
  const gchar *purpose;
} rows[] = {
  { "io_threads", "threads", FIELD (io_threads), "cores, 8 to 64; 2 on one core",
    "a thread with few connections sleeps on the core of the client that wakes it" },
  { "workers", "threads", FIELD (workers), "cores, at most 1024", "they compute" },
  { "tls_threads", "threads", FIELD (tls_threads), "cores / 2, at least 1",
    "handshakes leave half of the cores to calls" },
  { "max_helpers", "threads", FIELD (max_helpers), "cores / 4, 3 to 7",
    "more threads for one computation get no more memory bandwidth" },
  { "spin_us", "us", FIELD (spin_us), "100; 0 on one core",
    "about two wake-ups of an idle virtual core; each loop adapts to its waits" },
  { "spinning_loops", "loops", FIELD (spinning_loops), "cores / 2",
    "half of the cores stay for work" },
  { "row_presences", "counters", FIELD (row_presences), "cores * 2 as a power of two, 32 to 256",
    "threads that read a table do not share cache lines" },
  { "fetch_bytes", "bytes", FIELD (fetch_bytes), "a cache line, two on Intel",
    "the distance of prefetches of one row" },
};

static const TpsTuning constants = {
  /* The owner of a row's lock keeps it for less than a microsecond. */
  .lock_spins = 64,

  /* A wake-up takes about 40 us. Random reads of 256 KiB take about as long, with second-level
   * caches of 0.5 MiB (Zen 3), 1 MiB and 2 MiB. With 128 KiB instead, a Zen 3 with two cores
   * applied only half to three quarters of the pushes per second (//bench:lookup --only=push; 4
   * clients, pushes of 2,000 x 64 floats), because the pushes were no longer short steps. The
   * other sizes of work follow from this size. */
  .wake_bytes = 256 * KIB,
  .inline_bytes = 64 * KIB,    /* delays the other connections of an I/O thread for some 10 us */
  .part_bytes = 128 * KIB,     /* other jobs wait for no more than one part */
  .short_step_bytes = 2 * MIB, /* one thread applies a push of this size in some 0.2 ms */
  .reply_worker_bytes = 1 * MIB,
  .average_range_bytes = 1 * MIB,
  .average_helper_bytes = 3 * MIB,
  .model_range_bytes = 256 * KIB, /* an update does more with a byte than an average */
  .model_helper_bytes = 1 * MIB,

  /* Measured on 2 cores with 2 MiB of second-level cache each, with whole programs, whose data of
   * this size are not in a cache when they are copied. Copies past the caches changed the CPU time
   * of 3 trainers and their server (//bench:batch_update) by +10 % at 4 MiB, 0 % at 8 MiB, -10 % at
   * 16 MiB and -15 % at 32 MiB. A bucket of 25 MiB took 13 % less (//bench:parameter_server). */
  .stream_bytes = 12 * MIB,
  /* One core alone uses about half of the memory bandwidth. With the help of idle cores, an echo of
   * 16 or 64 MiB through shared memory took 0.6 times as long, with the same amount of work
   * (//bench:transfer). */
  .shared_stream_bytes = 16 * MIB,
  /* With 2 MiB of cache and messages of 1 to 64 MiB, 256 KiB was the fastest of the sizes from
   * 200 KiB to 4 MiB. A message of 16 MiB took 1.8 ms, and 2.9 ms with a buffer of 4 MiB: the
   * receiver finds the sender's pages in a cache. */
  .unix_buffer_bytes = 256 * KIB,
  /* With 1 MiB of cache and two ranks, 256 KiB was 2 to 10 % faster than 128 KiB, because the ranks
   * meet less often. */
  .reduce_slot_bytes = 256 * KIB,

  .digest_block_bytes = 16 * KIB, /* a hashed block is still in a first-level cache of 32 KiB */
  .row_ahead_bytes = 4 * KIB,     /* keeps memory busy */
  .pool_ahead_bytes = 256 * KIB,  /* a quarter of the second-level cache; at most 48 rows */
  .row_version_bytes = 64 * KIB,  /* a small part of the second-level cache */
};

const TpsTuning *tps_tuning_chosen;

/* ---- values ---------------------------------------------------------------------------------- */

/* With 8 clients on two cores, two threads completed about half as many small calls as eight
 * threads. On one core, two threads completed 1.24 times as many small calls as eight threads. */
gsize
tps_tuning_count_io_threads (guint n_cores)
{
  return n_cores == 1 ? 2 : CLAMP (n_cores, 8, 64);
}

void
tps_tuning_derive (const TpsMachine *machine, TpsTuning *tuning)
{
  guint n_cores = machine->n_cores;

  *tuning = constants;
  tuning->io_threads = tps_tuning_count_io_threads (n_cores);
  tuning->workers = MIN (n_cores, 1024);
  tuning->tls_threads = MAX (n_cores / 2, 1);
  /* One core reached half of the memory bandwidth, and three cores reached no more than two cores.
   * Machines with many cores have more memory channels. */
  tuning->max_helpers = CLAMP (n_cores / 4, 3, 7);
  /* The median round trip of 1 KiB over TCP took 50 us with sleeping and 8 us with spinning if the
   * client and the server ran on separate cores. On one core, it took 7.8 us and 6.1 us,
   * respectively. */
  tuning->spin_us = n_cores == 1 ? 0 : 100;
  tuning->spinning_loops = n_cores / 2;
  tuning->row_presences = (gsize) 1
                          << (g_bit_storage (CLAMP (n_cores * 2, MIN_PRESENCES, MAX_PRESENCES))
                              - 1);
  tuning->fetch_bytes = machine->fetches_pairs ? 2 * LINE_BYTES : LINE_BYTES;
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
  return G_N_ELEMENTS (rows);
}

TpsTuningRow
tps_tuning_get_row (const TpsTuning *tuning, guint i)
{
  return (TpsTuningRow) {
    .name = rows[i].name,
    .value = G_STRUCT_MEMBER (gsize, tuning, rows[i].offset),
    .unit = rows[i].unit,
    .rule = rows[i].rule,
    .purpose = rows[i].purpose,
  };
}
