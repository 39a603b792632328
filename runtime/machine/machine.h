/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The processor that this process runs on, and the memory that it may use. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint n_processors;     /* processors that are online */
  guint n_allowed;        /* of the affinity mask */
  guint n_quota;          /* CPU quota of the control groups, rounded up; 0 = none */
  guint n_cores;          /* the threads of this process that can run at a time; >= 1 */
  gboolean fetches_pairs; /* a fetch of one cache line also fetches its neighbour */
} TpsMachine;

typedef struct
{
  const gchar *root;  /* prefix of "/proc" and "/sys"; "" for this machine */
  guint n_processors; /* processors that are online, >= 1 */
  guint n_allowed;    /* of the affinity mask, >= 1 */
} TpsMachineSource;

/* Fills in `machine` from `source`. Reads files, and ignores those that are missing or contain no
 * sensible number. Thread: any. */
void tps_machine_read (const TpsMachineSource *source, TpsMachine *machine);

/* Returns the machine of this process, which is read at the first call and never freed. The
 * affinity mask is that of the main thread. Thread: any. */
const TpsMachine *tps_machine_get (void);

/* Returns the number of cores on which the calling thread may run (taskset, cpusets), or the CPU
 * quota of the process, rounded up, if less; at least 1. g_get_num_processors() of GLib 2.74
 * ignores these restrictions. Thread: any. */
guint tps_cores_count (void);

/* Returns the memory of the machine in bytes, or the limit of the process's control groups if the
 * limit is smaller. Reads files. Thread: any. */
gsize tps_host_memory_get_total (void);

/* Returns the smallest memory limit of the process's control groups and of their parents; G_MAXSIZE
 * if there is none. `root` precedes "/proc" and "/sys" in tests, and is "" otherwise. Reads files.
 * Thread: any. */
gsize tps_host_memory_get_group_limit (const gchar *root);

G_END_DECLS
