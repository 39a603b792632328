/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How much memory of the host this process may hope for. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Bytes of the machine, or of the process's control groups where those allow less. Reads files.
 * Thread: any. */
gsize tps_host_memory_get_total (void);

/* The smallest memory limit of the process's control groups, version 1 or 2, and of those above
 * them; G_MAXSIZE when there is none. `root` is "" but for tests: what stands before "/proc" and
 * "/sys". */
gsize tps_host_memory_get_group_limit (const gchar *root);

G_END_DECLS
