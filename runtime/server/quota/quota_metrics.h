/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Metrics of the limits of tenants and of their use. */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

/* Adds a sample of every tenant to each metric family. This is a TpsCollect for
 * tps_counters_add_collector(), with a TpsQuotas as `user_data`, which must outlive the collector.
 * Tenants beyond the maximum number of `quotas` or of a family are added up in one sample. */
void tps_quotas_collect (TpsReading *reading, gpointer quotas);

G_END_DECLS
