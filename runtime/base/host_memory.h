/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The host memory that is available to this process. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the memory of the machine in bytes, or the limit of the process's control groups if the
 * limit is smaller. Reads files. Thread: any. */
gsize tps_host_memory_get_total (void);

/* Returns the smallest memory limit of the process's control groups and of their parents; G_MAXSIZE
 * if there is none. `root` precedes "/proc" and "/sys" in tests, and is "" otherwise. Reads files.
 * Thread: any. */
gsize tps_host_memory_get_group_limit (const gchar *root);

G_END_DECLS
