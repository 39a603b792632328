/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How many threads can run at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The cores that the calling thread, and threads that it starts, may run on (taskset, cpusets of
 * containers); at least 1. GLib's g_get_num_processors() counts all of the machine: 2.74 does not
 * look at what a process may have. Thread: any. */
guint tps_cores_count (void);

G_END_DECLS
