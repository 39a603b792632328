/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/embedding_table.thrift: the methods as TpsRpcs (rpc.h), with their arguments and results.
 * Ownership is as in wire_tensor.h.
 *
 * Arguments that were read own their tensors (large ones refer to their receive buffers) and
 * contain views of them in the runtime's types. This file checks structure and dtypes, and
 * runtime/embedding checks the rest. An absent optimizer, initializer or shard has its default from
 * embedding_table.thrift; absent numbers are NAN.
 */

#pragma once

#include "plugin/wire/rpc.h"
#include "plugin/wire/value_kinds.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/embedding/bag_query.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* -- TableSpec -- */

extern const TpsStruct tps_table_spec_struct; /* TpsTableSpec */
extern const TpsList tps_table_spec_list;     /* TpsTableSpecs */

/* -- create_table, list_tables, drop_table -- */

extern const TpsRpc tps_create_table_rpc; /* TpsTableSpec */
extern const TpsRpc tps_list_tables_rpc;  /* -> TpsTableSpecs */
extern const TpsRpc tps_drop_table_rpc;   /* gchar * */

/* -- lookup_bags, lookup_rows -- */

/* Memory of tensors that were read. */
typedef struct
{
  guint n_buffers;
  TpsBuffer **buffers;
} TpsOwnedBuffers;

typedef struct
{
  guint n_queries;
  TpsBagQuery *queries;
  TpsOwnedBuffers *owned; /* NULL: all tensors are borrowed until the writer releases them */
} TpsLookupBagsArguments;

typedef struct
{
  gchar *table;
  TpsTensor indices;
} TpsLookupRowsArguments;

typedef struct
{
  TpsTensor rows;
  TpsTensor lsns; /* INT64 [n] */
} TpsRowsWithLsns;

/* Free the members. */
void tps_rows_with_lsns_clear (TpsRowsWithLsns *rows);
void tps_lookup_bags_arguments_clear (TpsLookupBagsArguments *arguments);
void tps_lookup_rows_arguments_clear (TpsLookupRowsArguments *arguments);

extern const TpsRpc tps_lookup_bags_rpc;           /* TpsLookupBagsArguments -> TpsTensorList */
extern const TpsRpc tps_lookup_rows_rpc;           /* TpsLookupRowsArguments -> TpsTensor */
extern const TpsRpc tps_lookup_rows_with_lsns_rpc; /* TpsLookupRowsArguments -> TpsRowsWithLsns */

/* -- apply_row_gradients, apply_bag_gradients -- */

typedef struct
{
  gchar *table;
  TpsGradient gradient; /* SPARSE */
  TpsPushId push;       /* client NULL = no push id */
} TpsApplyRowGradientsArguments;

typedef struct
{
  guint n_gradients;
  TpsBagGradient *gradients;
  TpsPushId push;         /* client NULL = no push id */
  TpsOwnedBuffers *owned; /* as in TpsLookupBagsArguments */
} TpsApplyBagGradientsArguments;

typedef struct
{
  gchar *table;
  TpsTensor indices;
  TpsTensor values;
  gint64 lsn;     /* 0 = none */
  TpsPushId push; /* client NULL = no push id */
} TpsAssignRowsArguments;

/* Free the members. */
void tps_assign_rows_arguments_clear (TpsAssignRowsArguments *arguments);
void tps_apply_row_gradients_arguments_clear (TpsApplyRowGradientsArguments *arguments);
void tps_apply_bag_gradients_arguments_clear (TpsApplyBagGradientsArguments *arguments);

extern const TpsRpc tps_apply_row_gradients_rpc; /* TpsApplyRowGradientsArguments */
extern const TpsRpc tps_apply_bag_gradients_rpc; /* TpsApplyBagGradientsArguments */
extern const TpsRpc tps_assign_rows_rpc;         /* TpsAssignRowsArguments */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupBagsArguments, tps_lookup_bags_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupRowsArguments, tps_lookup_rows_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsRowsWithLsns, tps_rows_with_lsns_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAssignRowsArguments, tps_assign_rows_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsApplyRowGradientsArguments,
                                  tps_apply_row_gradients_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsApplyBagGradientsArguments,
                                  tps_apply_bag_gradients_arguments_clear)

G_END_DECLS
