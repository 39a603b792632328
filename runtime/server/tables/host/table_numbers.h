/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What is counted of one table, for operators: OPERATING.md, "Metrics". */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsTableNumbers TpsTableNumbers;

/* NULL `counters`: NULL, which counts nothing. A reference of `counters` is taken. `spec` is
 * resolved, `bytes` filled in. Owned by the caller, for as long as the table lives: its series end
 * with it. */
TpsTableNumbers *tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec);
void tps_table_numbers_free (TpsTableNumbers *numbers);

/* One lookup, or one push that has taken effect, of `n_rows`, each as often as it was named.
 * Thread: any. */
void tps_table_numbers_add_lookup (TpsTableNumbers *numbers, gsize n_rows);
void tps_table_numbers_add_push (TpsTableNumbers *numbers, gsize n_rows);

G_END_DECLS
