/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that the formats of exposition.h share. */

#pragma once

#include "runtime/base/exposition.h"

G_BEGIN_DECLS

/* Returns "thriftps_" and the name, or the name alone if all exporters use it (process_*). The
 * caller owns the text. */
gchar *tps_exposition_dup_name (const TpsFamily *family);

/* Appends all numbers of `reading` to `body`, as text or as OpenMetrics. */
void tps_exposition_write_text (GString *body, TpsCounters *counters, const TpsReading *reading,
                                gboolean is_openmetrics);

/* Appends all numbers of `reading` to `body`, as length-delimited protobuf messages. */
void tps_exposition_write_protobuf (GString *body, TpsCounters *counters,
                                    const TpsReading *reading);

G_END_DECLS
