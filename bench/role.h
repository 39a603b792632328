/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One role of the world, in a process of its own: a trainer or a parameter server. */

#pragma once

#include "bench/options.h"

G_BEGIN_DECLS

/* Serves until the master says stop, the master is gone, or a signal comes. Returns the exit
 * status; errors go to stderr with the role's name. */
gint tps_role_run (const TpsBenchOptions *options);

/* Whether the server class takes the arguments of --server-config-path. */
gboolean tps_role_check_server_arguments (const TpsBenchOptions *options, GError **error);

G_END_DECLS
