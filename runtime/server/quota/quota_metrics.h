/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The use of tenants' limits, for exporters of metrics. */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

/* Adds a sample of every tenant to each family: a TpsCollect for tps_counters_add_collector(), with
 * TpsQuotas as `user_data`, which must outlive it. Tenants whose names exceed the bounds of
 * `quotas` or of a family are added up in one sample. */
void tps_quotas_collect (TpsReading *reading, gpointer quotas);

G_END_DECLS
