/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A role of the world in its own process: a trainer or a server. */

#pragma once

#include "bench/world/world.h"
#include "plugin/plugin.h"

/* Sets options of server `server` (from 0) besides its name and metrics. Strings are borrowed. */
typedef gboolean (*TpsFillServer) (gpointer user_data, guint server, TpsPluginOptions *options,
                                   GError **error);

/* Runs a role. Returns if the master ends the run, if the master has exited or does not respond, or
 * if a signal arrives. `flags` are lines "name=value" of all flags; the master compares them with
 * its own. Returns the exit status: 0 if the run has succeeded or a signal has arrived, otherwise
 * 1. Prints errors to stderr with the name of the role. The reason of a failed run is printed only
 * without a launcher, because a launcher prints it. */
gint tps_role_run (const TpsWorld *world, const GPtrArray *flags, TpsFillServer fill_server,
                   gpointer user_data);
