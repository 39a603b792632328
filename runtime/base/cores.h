/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The number of threads of this process that can run at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the number of cores on which the calling thread may run (taskset, cpusets), or the CPU
 * quota of the process, rounded up, if less; at least 1. g_get_num_processors() of GLib 2.74
 * ignores these restrictions. Thread: any. */
guint tps_cores_count (void);

G_END_DECLS
