/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One role of the world, in a process of its own: a trainer or a server. */

#pragma once

#include "bench/world/world.h"
#include "plugin/plugin.h"

G_BEGIN_DECLS

/* Fills in what the plugin of a server offers beyond its name and metrics; `server` counts from 0.
 * Strings are borrowed. */
typedef gboolean (*TpsFillServer) (gpointer user_data, guint server, TpsPluginOptions *options,
                                   GError **error);

/* Serves until the master says stop, the master is gone or silent, or a signal comes. `flags`:
 * lines "name=value" of all flags in use, which the master compares with its own. Returns the exit
 * status: 0 if the run succeeded, or after a signal; else
 * 1. Errors go to stderr with the role's name; roles that were launched leave it to their launcher
 *    to say why a run failed. */
gint tps_role_run (const TpsWorld *world, const GPtrArray *flags, TpsFillServer fill_server,
                   gpointer user_data);

G_END_DECLS
