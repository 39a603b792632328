/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Values that were measured: those that depend on the machine, and sizes of work and of copies that
 * were best on every measured processor. The rules form one table (tuning.c), which
 * `thriftps_server --tuning` prints. Code must read these values instead of having constants of its
 * own. The bounds of a rule are measured values. Reading a value takes a load and a comparison. */

#pragma once

#include "runtime/machine/machine.h"

G_BEGIN_DECLS

typedef struct
{
  /* These values depend on the machine. The rules and the reasons are in tuning.c. */
  gsize io_threads;
  gsize workers;
  gsize tls_threads;
  gsize max_helpers;    /* of one computation, in addition to the thread that began it */
  gsize spin_us;        /* of an event loop before it sleeps; 0 = never */
  gsize spinning_loops; /* at a time */
  gsize row_presences;  /* the most counters of a table's readers; a power of two */
  gsize fetch_bytes;    /* fetched by one prefetch: one or two cache lines */

  /* The other values are constants. They are fields so that tests can change them. */
  gsize lock_spins;           /* attempts on a short lock before the core is yielded; >= 1 */
  gsize wake_bytes;           /* can be read in about the time of waking a thread */
  gsize inline_bytes;         /* the most that an I/O thread works on while others may wait */
  gsize part_bytes;           /* of work that is shared with idle workers */
  gsize short_step_bytes;     /* the most that one thread updates alone */
  gsize reply_worker_bytes;   /* the least for which a reply gets a worker of its own */
  gsize average_range_bytes;  /* part of an average that a thread takes at a time */
  gsize average_helper_bytes; /* of an average, that justify one more helper */
  gsize model_range_bytes;    /* these two are as above, for an update of the model */
  gsize model_helper_bytes;
  gsize stream_bytes;        /* the least that is copied past the caches */
  gsize shared_stream_bytes; /* the least that other cores help to copy */
  gsize unix_buffer_bytes;   /* send buffer of a Unix socket */
  gsize reduce_slot_bytes;   /* of a rank, for sums in shared memory; equal in all processes */
  gsize digest_block_bytes;  /* of a gradient that is hashed and added up in one visit */
  gsize row_ahead_bytes;     /* prefetched while rows are copied */
  gsize pool_ahead_bytes;    /* prefetched while rows are pooled */
  gsize row_version_bytes;   /* the most of a table's versions of rows */
} TpsTuning;

/* A value that depends on the machine. The texts are static. */
typedef struct
{
  const gchar *name;
  gsize value;
  const gchar *unit;    /* "threads", "us", ... */
  const gchar *rule;    /* "cores, 8 to 64; 2 on one core" */
  const gchar *purpose; /* the reason for the rule */
} TpsTuningRow;

/* Fills in `tuning` for `machine`. Reads no file and no clock. Thread: any. */
void tps_tuning_derive (const TpsMachine *machine, TpsTuning *tuning);

guint tps_tuning_count_rows (void);

TpsTuningRow tps_tuning_get_row (const TpsTuning *tuning, guint i);

/* Returns the number of I/O threads of a server whose creator may run on `n_cores` cores. */
gsize tps_tuning_count_io_threads (guint n_cores);

/* The values of this process, NULL until their first use; for tps_tuning_get() only. */
extern const TpsTuning *tps_tuning_chosen;
/* Computes the values at the first use; for tps_tuning_get() only. Thread: any. */
const TpsTuning *tps_tuning_choose (void);

/* Returns the values for the machine of this process (tps_machine_get()), which are never freed.
 * Thread: any. */
static inline const TpsTuning *
tps_tuning_get (void)
{
  const TpsTuning *chosen = __atomic_load_n (&tps_tuning_chosen, __ATOMIC_ACQUIRE);

  return G_LIKELY (chosen != NULL) ? chosen : tps_tuning_choose ();
}

G_END_DECLS
