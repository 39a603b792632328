/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Metrics of one table: OPERATING.md, "Metrics". */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsTableNumbers TpsTableNumbers;

/* `counters` NULL: returns NULL, which counts nothing. A reference to `counters` is taken. `spec`
 * is resolved, `bytes` filled in. The caller owns the result and must free it with the table: its
 * series end then. */
TpsTableNumbers *tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec);
void tps_table_numbers_free (TpsTableNumbers *numbers);

/* Counts one lookup, or one push that has taken effect, of `n_rows`, each as often as it was named.
 * Thread: any. */
void tps_table_numbers_add_lookup (TpsTableNumbers *numbers, gsize n_rows);
void tps_table_numbers_add_push (TpsTableNumbers *numbers, gsize n_rows);

G_END_DECLS
