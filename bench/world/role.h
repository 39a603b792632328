/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A role of the world in a process of its own: a trainer or a server. */

#pragma once

#include "bench/world/world.h"
#include "plugin/plugin.h"

G_BEGIN_DECLS

/* Sets options of a server's plugin in addition to its name and metrics; `server` counts from 0.
 * Strings are borrowed. */
typedef gboolean (*TpsFillServer) (gpointer user_data, guint server, TpsPluginOptions *options,
                                   GError **error);

/* Serves until the master ends the run, the master has ended or does not respond, or a signal
 * arrives. `flags` are lines "name=value" of all flags, which the master compares with its own.
 * Returns the exit status: 0 if the run succeeded or after a signal, otherwise 1. Errors are
 * printed to stderr with the role's name, except that a role with a launcher leaves the reason of a
 * failed run to the launcher. */
gint tps_role_run (const TpsWorld *world, const GPtrArray *flags, TpsFillServer fill_server,
                   gpointer user_data);

G_END_DECLS
