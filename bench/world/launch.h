/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Starts this program again for each role of the world. */

#pragma once

#include "bench/process/supervisor.h"
#include "bench/world/world.h"

G_BEGIN_DECLS

/* Creates a folder for the Unix sockets of the world. The caller owns the path, and must remove the
 * folder with tps_bench_remove_folder(), which also removes the files of killed roles. Errors:
 * INVALID_ARGUMENT (the path is too long for a socket), and those of g_dir_make_tmp(). */
gchar *tps_launch_make_socket_dir (const TpsWorld *world, GError **error);

/* Starts all trainers and servers as children of `supervisor`, with the flags of this process.
 * Errors: those of tps_supervisor_start(). */
gboolean tps_launch_roles (const TpsWorld *world, TpsSupervisor *supervisor,
                           const gchar *socket_dir, guint master_port, GError **error);

G_END_DECLS
