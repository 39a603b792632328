/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The servers with the tables: processes of thriftps_server. */

#pragma once

#include "bench/dlrm/options.h"
#include "bench/process/supervisor.h"

G_BEGIN_DECLS

typedef struct TpsDlrmCluster TpsDlrmCluster;

/* Starts the servers and creates the tables. Large tables are divided over all servers by hash;
 * each small table is on one server. `folder` is for sockets. Blocks. The caller owns the result.
 * Errors: those of the supervisor and of the servers. */
TpsDlrmCluster *tps_dlrm_cluster_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor,
                                        const gchar *folder, GError **error);
void tps_dlrm_cluster_free (TpsDlrmCluster *cluster);

/* Returns the addresses of the servers, separated by commas. Borrowed. */
const gchar *tps_dlrm_cluster_get_addresses (const TpsDlrmCluster *cluster);

G_END_DECLS
