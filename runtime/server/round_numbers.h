/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Metrics of the rounds of a parameter server: REFERENCE.md. */

#pragma once

#include "runtime/base/metrics.h"

G_BEGIN_DECLS

typedef struct
{
  TpsGauge *open;
  TpsGauge *waiting; /* calls, until they are answered */
  TpsCounter *completed;
} TpsRoundNumbers;

/* Fills in `numbers`, which are borrowed from `metrics`. `server` must be "averaging" or
 * "updating". */
void tps_round_numbers_init (TpsRoundNumbers *numbers, TpsMetrics *metrics, const gchar *server);

G_END_DECLS
