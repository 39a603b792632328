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

/* The work of one lookup or push. */
typedef struct
{
  gsize n_rows;       /* each as often as it was named */
  gsize n_bytes;      /* of vectors and rows: the answer of a lookup, the gradients of a push */
  gint64 duration_ns; /* from the arrival of the request; negative = it was not timed */
} TpsTableWork;

/* Counts a lookup, or a push that has taken effect. NULL `numbers` are fine. No lock, and no clock
 * read: about 10 ns. Thread: any. */
void tps_table_numbers_add_lookup (TpsTableNumbers *numbers, const TpsTableWork *work);
void tps_table_numbers_add_push (TpsTableNumbers *numbers, const TpsTableWork *work);

G_END_DECLS
