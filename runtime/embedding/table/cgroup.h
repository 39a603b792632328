/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The smallest memory limit of the process's control groups, version 1 or 2, and of those above them; G_MAXSIZE when
 * there is none. `root` is "" but for tests: what stands before "/proc" and "/sys". */
gsize tps_cgroup_get_memory_limit (const gchar *root);

G_END_DECLS
