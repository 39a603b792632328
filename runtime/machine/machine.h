/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The processor that this process runs on: its cores and its caches.
 *
 * The sizes of caches come from the kernel's files (/sys/devices/system/cpu), otherwise from the C
 * library. A guest sees the whole last-level cache of its host: for example 480 MiB for two cores,
 * although it shares this cache with the guests on all other cores. Sizes are therefore those of
 * the share of one core, and the share of the last-level cache is limited to
 * TPS_MACHINE_MAX_L3_PER_CORE.
 *
 * Shares are minima over the machine's processors, not the process's: processes on one machine must
 * find equal sizes, regardless of the processors on which they may run.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Server processors have 1 to 5 MiB of last-level cache for each core. Values for a smaller share
 * also suit the few processors that have more. */
#define TPS_MACHINE_MAX_L3_PER_CORE ((gsize) 4 << 20)

/* The source of the cache sizes, best first. */
typedef enum
{
  TPS_CACHES_FROM_KERNEL,
  TPS_CACHES_FROM_LIBRARY,
  TPS_CACHES_ASSUMED, /* nothing is known: 32 KiB and 1 MiB, and no third level */
} TpsCacheOrigin;

typedef struct
{
  guint n_processors; /* processors that are online */
  guint n_allowed;    /* of the affinity mask */
  guint n_quota;      /* CPU quota of the control groups, rounded up; 0 = none */
  guint n_cores;      /* the threads of this process that can run at a time; >= 1 */

  TpsCacheOrigin origin;
  gsize l1_bytes;    /* first level, data, of a core with its hyperthreads */
  gsize l2_bytes;    /* second level, the share of a core */
  gsize l3_bytes;    /* third level, the limited share of a core; 0 = there is none */
  gsize l3_reported; /* third level, the size as reported, and the cores that seem to share it */
  guint l3_cores;

  gsize line_bytes;       /* of a cache line */
  gboolean fetches_pairs; /* a fetch of one line also fetches its neighbour */
} TpsMachine;

typedef struct
{
  const gchar *root; /* prefix of "/proc" and "/sys"; "" for this machine */
  guint n_allowed;   /* of the affinity mask, >= 1 */
  /* Returns the size of the data cache of `level` according to the C library, 0 = unknown. */
  gsize (*get_cache_bytes) (guint level);
} TpsMachineSource;

/* Fills in `machine` from `source`. Reads files, and ignores those that are missing or contain no
 * sensible number. Thread: any. */
void tps_machine_read (const TpsMachineSource *source, TpsMachine *machine);

/* Returns the machine of this process, which is read at the first call and never freed. The
 * affinity mask is that of the main thread. Thread: any. */
const TpsMachine *tps_machine_get (void);

G_END_DECLS
