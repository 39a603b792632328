/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Starts this program once more for each role of the world. */

#pragma once

#include "bench/process/supervisor.h"
#include "bench/world/world.h"

G_BEGIN_DECLS

/* A folder for the world's Unix sockets; owned: tps_bench_remove_folder(), with what killed roles
 * left in it. */
gchar *tps_launch_make_socket_dir (const TpsWorld *world, GError **error);

/* All trainers and servers, with the flags that this process was given. */
gboolean tps_launch_roles (const TpsWorld *world, TpsSupervisor *supervisor,
                           const gchar *socket_dir, guint master_port, GError **error);

G_END_DECLS
