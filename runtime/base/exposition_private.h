/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that the formats of exposition.h share. */

#pragma once

#include "runtime/base/exposition.h"

G_BEGIN_DECLS

/* "thriftps_" and the name, or the name alone if it is one that all exporters have (process_*). The
 * caller owns it. */
gchar *tps_exposition_dup_name (const TpsFamily *family);

/* Text or OpenMetrics. */
void tps_exposition_write_text (GString *body, TpsCounters *counters, const TpsReading *reading,
                                gboolean is_openmetrics);

/* Length-delimited protobuf messages. */
void tps_exposition_write_protobuf (GString *body, TpsCounters *counters,
                                    const TpsReading *reading);

G_END_DECLS
