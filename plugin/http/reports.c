/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/reports.h"

const TpsHttpEndpoint *
tps_reports_get_endpoints (void)
{
  static const TpsHttpEndpoint endpoints[] = {
    { "/healthz", .right = TPS_RIGHT_OPEN, .handle = tps_report_healthz },
    { "/readyz", .right = TPS_RIGHT_OPEN, .handle = tps_report_readyz },
    { "/version", .right = TPS_RIGHT_ADMIN, .handle = tps_report_version },
    { "/status", .right = TPS_RIGHT_ADMIN, .handle = tps_report_status },
    { "/connections", .right = TPS_RIGHT_ADMIN, .handle = tps_report_connections },
    { "/tables", .right = TPS_RIGHT_ADMIN, .handle = tps_report_tables },
    { "/rounds", .right = TPS_RIGHT_ADMIN, .handle = tps_report_rounds },
    { "/slow", .right = TPS_RIGHT_ADMIN, .handle = tps_report_slow },
    { "/metrics", .right = TPS_RIGHT_ADMIN, .handle = tps_report_metrics },
    { NULL },
  };

  return endpoints;
}
