/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/embedding_table.thrift; functions named, and ownership and errors as in wire_parameter_server.h.
 *
 * Decoded arguments own their tensors (large ones refer to the buffers that they were received into) and offer views of
 * them in the runtime's types. Structure and dtypes are checked here, everything else by runtime/embedding. An absent
 * optimizer, initializer or shard is filled in as embedding_table.thrift says, absent numbers stay NAN.
 */

#pragma once

#include "plugin/wire/wire_tensor.h"
#include "runtime/embedding/bag_query.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* -- create_table, list_tables, drop_table -- */

gboolean tps_create_table_arguments_decode (TpsReader *in, TpsTableSpec *spec, GError **error);
/* `spec`: const TpsTableSpec *. */
void tps_create_table_arguments_encode (TpsWriter *out, gconstpointer spec);

/* `data`: const GArray * of TpsTableSpec; `target`: GArray **, clears its elements. */
void tps_list_tables_result_encode (TpsWriter *out, gconstpointer data);
gboolean tps_list_tables_result_decode (TpsReader *in, TpsWireType type, gpointer target,
                                        GError **error);

/* `table` is the caller's; g_free(). */
gboolean tps_drop_table_arguments_decode (TpsReader *in, gchar **table, GError **error);
/* `table`: const gchar *. */
void tps_drop_table_arguments_encode (TpsWriter *out, gconstpointer table);

/* -- lookup_bags -- */

/* Queries and what they point to. Only decoding fills `tensors`. */
typedef struct
{
  guint n_queries;
  TpsBagQuery *queries;
  GPtrArray *owned; /* what keeps names and tensors alive; private */
} TpsLookupBagsArguments;

gboolean tps_lookup_bags_arguments_decode (TpsReader *in, TpsLookupBagsArguments *arguments,
                                           GError **error);
/* `data`: const TpsLookupBagsArguments *, whose `owned` may be NULL. Elements are borrowed until the writer lets go
 * of them. */
void tps_lookup_bags_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_lookup_bags_arguments_clear (TpsLookupBagsArguments *arguments);

typedef struct
{
  guint n_tensors;
  TpsTensor *tensors;
} TpsTensorList;

void tps_tensor_list_clear (TpsTensorList *list);

/* `data`: const TpsTensorList *; `target`: TpsTensorList *, zero before. */
void tps_lookup_bags_result_encode (TpsWriter *out, gconstpointer data);
gboolean tps_lookup_bags_result_decode (TpsReader *in, TpsWireType type, gpointer target,
                                        GError **error);

/* -- lookup_rows -- */

typedef struct
{
  gchar *table;
  TpsTensor indices;
} TpsLookupRowsArguments;

gboolean tps_lookup_rows_arguments_decode (TpsReader *in, TpsLookupRowsArguments *arguments,
                                           GError **error);
void tps_lookup_rows_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_lookup_rows_arguments_clear (TpsLookupRowsArguments *arguments);

/* `tensor`: const TpsTensor *; TpsTensor *, zero before. */
void tps_lookup_rows_result_encode (TpsWriter *out, gconstpointer tensor);
gboolean tps_lookup_rows_result_decode (TpsReader *in, TpsWireType type, gpointer tensor,
                                        GError **error);

/* -- apply_row_gradients, apply_bag_gradients -- */

typedef struct
{
  gchar *table;
  TpsGradient gradient; /* SPARSE */
  TpsPushId push;       /* client NULL = none */
} TpsApplyRowGradientsArguments;

gboolean tps_apply_row_gradients_arguments_decode (TpsReader *in,
                                                   TpsApplyRowGradientsArguments *arguments,
                                                   GError **error);
void tps_apply_row_gradients_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_apply_row_gradients_arguments_clear (TpsApplyRowGradientsArguments *arguments);

typedef struct
{
  guint n_gradients;
  TpsBagGradient *gradients;
  TpsPushId push;
  GPtrArray *owned; /* private */
} TpsApplyBagGradientsArguments;

gboolean tps_apply_bag_gradients_arguments_decode (TpsReader *in,
                                                   TpsApplyBagGradientsArguments *arguments,
                                                   GError **error);
void tps_apply_bag_gradients_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_apply_bag_gradients_arguments_clear (TpsApplyBagGradientsArguments *arguments);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupBagsArguments, tps_lookup_bags_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTensorList, tps_tensor_list_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupRowsArguments, tps_lookup_rows_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsApplyRowGradientsArguments,
                                  tps_apply_row_gradients_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsApplyBagGradientsArguments,
                                  tps_apply_bag_gradients_arguments_clear)

G_END_DECLS
