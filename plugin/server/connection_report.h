/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lists the connections of a server. Inside plugin/server only. */

#pragma once

#include "plugin/server/core.h"

G_BEGIN_DECLS

/* Implements tps_server_list_connections(). */
GArray *tps_connection_report_new (TpsServerCore *core, guint64 after, guint n_max);

G_END_DECLS
