/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All numbers of a server in the formats that Prometheus scrapes:
 *
 *   text         Prometheus' text format 0.0.4
 *   OpenMetrics  1.0
 *
 *   format = tps_exposition_choose (accept);             from the request's header Accept
 *   body = tps_exposition_write (tps_metrics_get_counters (metrics), format);
 *   send (tps_exposition_get_content_type (format), body->str, body->len);
 *   g_string_free (body, TRUE);
 *
 * Names begin with "thriftps_", except those that all exporters of Prometheus use (process_*).
 * Histograms have 19 buckets from 10 us to 60 s, whose bounds are rounded by up to 1.1 % to bounds
 * of TpsHistogram. OpenMetrics has the newest exemplar of each bucket.
 */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_EXPOSITION_TEXT = 0,
  TPS_EXPOSITION_OPENMETRICS = 1,
} TpsExpositionFormat;

/* Returns the format that a client prefers, by the value of its HTTP header Accept (NULL = the
 * header is missing); TPS_EXPOSITION_TEXT if the client accepts none of the formats. */
TpsExpositionFormat tps_exposition_choose (const gchar *accept);

/* Returns the value of the HTTP header Content-Type; static. */
const gchar *tps_exposition_get_content_type (TpsExpositionFormat format);

/* Returns the body of a response, which the caller owns. Its size is bounded, because the number of
 * series is bounded. The call takes the locks of the sequencer, the log, push windows and similar
 * objects, each while it reads a number, but no lock that lookups take. Thread: any. */
GString *tps_exposition_write (TpsCounters *counters, TpsExpositionFormat format);

G_END_DECLS
