/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Queries for bags of rows of a named table. All members are borrowed. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *table;
  TpsTensorView indices; /* INT64 [nnz], global ids */
  TpsTensorView offsets; /* INT64 [bags], ascending, the first 0 */
  TpsPooling pooling;
  TpsTensorView weights; /* FLOAT32 [nnz], SUM only; shape.dtype 0 means no weights */
} TpsBagQuery;

typedef struct
{
  TpsBagQuery query;
  TpsTensorView gradient; /* of the pooled output, FLOAT32 [bags, dim] */
  /* Clients and MAX only: INT64 [bags, dim], the rows that the gradient goes to, as from the lookup
   * (plugin/client/remote_tables.h); shape.dtype 0 means that the push finds the maxima. */
  TpsTensorView maxima;
} TpsBagGradient;

/* Checks all that does not depend on the table: dtypes and dimensions; offsets ascend from 0 to at
 * most nnz; weights only with SUM. `what` names the query, e.g. "queries[2]". Errors:
 * INVALID_ARGUMENT; the message names the value and its position. Thread: any. */
gboolean tps_bag_query_check (const TpsBagQuery *query, const gchar *what, GError **error);

G_END_DECLS
