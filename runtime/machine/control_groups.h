/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The control groups of this process: its own and all that contain it, versions 1 and 2. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Receives one group: `version` is 1 or 2; `folder` is borrowed, and may not exist: in a container,
 * the path of the process's group may be a path of the host. */
typedef void (*TpsControlGroupFunc) (const gchar *folder, guint version, gpointer user_data);

/* Calls `func` for each group of this process that `controller` ("memory", "cpu") may limit,
 * including the mount. `root` precedes "/proc" and "/sys" in tests, and is "" otherwise. Thread:
 * any. */
void tps_control_groups_visit (const gchar *root, const gchar *controller, TpsControlGroupFunc func,
                               gpointer user_data);

G_END_DECLS
