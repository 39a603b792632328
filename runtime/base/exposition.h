/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All numbers of a server in Prometheus' text format 0.0.4 and in OpenMetrics 1.0.
 *
 * Names begin with "thriftps_", except those that all exporters of Prometheus use (process_*).
 * Histograms have 19 buckets from 10 us to 60 s, whose bounds are rounded by up to 1.1 % to bounds
 * of TpsHistogram. OpenMetrics has the newest exemplar of each bucket. */

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

/* Returns the body of a response, which the caller owns. Takes the locks of the sequencer, the log,
 * push windows and similar objects, each while it reads a number, but no lock that lookups take.
 * Thread: any. */
GString *tps_exposition_write (TpsCounters *counters, TpsExpositionFormat format);

G_END_DECLS
