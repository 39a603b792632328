/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Starts this program again for each role of the world. */

#pragma once

#include "bench/process/supervisor.h"
#include "bench/world/world.h"

G_BEGIN_DECLS

/* Creates a folder for the world's Unix sockets. The caller must remove it with
 * tps_bench_remove_folder(), which also removes the files of killed roles. Errors: INVALID_ARGUMENT
 * (the path is too long for a socket). */
gchar *tps_launch_make_socket_dir (const TpsWorld *world, GError **error);

/* Starts all trainers and servers, with the flags of this process. */
gboolean tps_launch_roles (const TpsWorld *world, TpsSupervisor *supervisor,
                           const gchar *socket_dir, guint master_port, GError **error);

G_END_DECLS
