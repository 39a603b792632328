/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The number of threads that can run at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The number of cores on which the calling thread, and threads that it starts, may run (taskset,
 * cpusets of containers), or the CPU quota of the process rounded up, if that is less; at least 1.
 * GLib's g_get_num_processors() counts all cores of the
 * machine: version 2.74 ignores the restrictions of a process. Thread: any. */
guint tps_cores_count (void);

G_END_DECLS
