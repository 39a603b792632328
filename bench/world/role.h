/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One role of the world, in a process of its own: a trainer or a server. */

#pragma once

#include "bench/world/world.h"
#include "plugin/plugin.h"

G_BEGIN_DECLS

/* Fills in what the plugin of a server offers beyond its name and metrics; `server` counts from 0. Strings are borrowed. */
typedef gboolean (*TpsFillServer) (gpointer user_data, guint server, TpsPluginOptions *options,
                                   GError **error);

/* Serves until the master says stop, the master is gone, or a signal comes. Returns the exit
 * status; errors go to stderr with the role's name. */
gint tps_role_run (const TpsWorld *world, TpsFillServer fill_server, gpointer user_data);

G_END_DECLS
