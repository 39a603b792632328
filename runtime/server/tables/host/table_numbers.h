/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The metrics of one table. REFERENCE.md describes them. */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsTableNumbers TpsTableNumbers;

/* Creates the metrics of a table. The caller owns the result and must free it with the table; its
 * series end then. `spec` must be resolved, with `bytes` filled in. A reference to `counters` is
 * taken; if they are NULL, the result is NULL, which counts nothing. */
TpsTableNumbers *tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec);
void tps_table_numbers_free (TpsTableNumbers *numbers);

/* The work of one lookup or push. */
typedef struct
{
  gsize n_rows;       /* each row counts as often as it was named */
  gsize n_bytes;      /* of vectors and rows: the answer of a lookup, the gradients of a push */
  gint64 duration_ns; /* from the arrival of the request; negative = it was not timed */
} TpsTableWork;

/* Count a lookup, or a push that has taken effect. `numbers` may be NULL. Takes no lock and reads
 * no clock: about 10 ns. Thread: any. */
void tps_table_numbers_add_lookup (TpsTableNumbers *numbers, const TpsTableWork *work);
void tps_table_numbers_add_push (TpsTableNumbers *numbers, const TpsTableWork *work);

G_END_DECLS
