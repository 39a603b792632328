/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The number of threads of this process that can run at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the number of cores on which the calling thread, and threads that it starts, may run
 * (taskset, cpusets of containers), or the CPU quota of the process, rounded up, if the quota is
 * less; at least 1. GLib's g_get_num_processors() cannot be used: version 2.74 counts all cores of
 * the machine, and ignores the restrictions of a process. Thread: any. */
guint tps_cores_count (void);

G_END_DECLS
