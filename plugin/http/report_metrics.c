/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/reports.h"
#include "runtime/base/exposition.h"

void
tps_report_metrics (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  TpsCounters *counters = tps_metrics_get_counters (tps_plugin_get_metrics (reports->plugin));
  TpsExpositionFormat format = tps_exposition_choose (
      tps_http_request_get_header (request, "Accept"));

  tps_http_request_reply (request, 200, tps_exposition_get_content_type (format),
                          tps_exposition_write (counters, format));
}
