/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The methods for lookups and updates of rows; TableSpec is in wire_table_spec.c. */

#include "plugin/wire/wire_embedding_table.h"

#include "runtime/base/growing_array.h"

#define SERVICE "EmbeddingTable"

/* ---- tensors of queries --------------------------------------------------------------------- */

/* A tensor of a query. It is read into `tensor`, and written from `view`. */
typedef struct
{
  TpsTensor tensor;
  const TpsTensorView *view;
} BagTensor;

typedef struct
{
  TpsDType dtype;
  guint n_dims;
  const gchar *name;
} BagTensorType;

static const BagTensorType indices_type = { TPS_DTYPE_INT64, 1, "INT64 [nnz]" };
static const BagTensorType offsets_type = { TPS_DTYPE_INT64, 1, "INT64 [bags]" };
static const BagTensorType weights_type = { TPS_DTYPE_FLOAT32, 1, "FLOAT32 [nnz]" };
static const BagTensorType gradient_type = { TPS_DTYPE_FLOAT32, 2, "FLOAT32 [bags, dim]" };

static gboolean
read_bag_tensor (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                 GError **error)
{
  const BagTensorType *type = field->of;
  BagTensor *value = TPS_FIELD_VALUE (field, object);

  return tps_tensor_decode_as (in, path, type->dtype, type->n_dims, type->name, &value->tensor,
                               error);
}

static void
write_bag_tensor (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const BagTensor *value = TPS_FIELD_CONST_VALUE (field, object);

  tps_tensor_encode_borrowed (out, *value->view);
}

static gboolean
is_bag_tensor_set (const TpsField *field, gconstpointer object)
{
  const BagTensor *value = TPS_FIELD_CONST_VALUE (field, object);

  return value->view->shape.dtype != 0;
}

/* A BagTensor. Of a BagTensorType. */
static const TpsValueKind bag_tensor_kind = { TPS_WIRE_STRUCT, "Tensor", read_bag_tensor,
                                              write_bag_tensor, is_bag_tensor_set };

/* ---- BagQuery, BagGradient ------------------------------------------------------------------ */

/* The forms of these structs on the wire. In C, their tensors are views. */
typedef struct
{
  gchar *table;
  BagTensor indices, offsets, weights;
  TpsPooling pooling;
} WireQuery;

typedef struct
{
  WireQuery query; /* must be first: read_bags() reads a BagQuery into a WireGradient */
  BagTensor gradient;
} WireGradient;

static const TpsEnumValue poolings[] = {
  { "SUM", TPS_POOLING_SUM },
  { "MEAN", TPS_POOLING_MEAN },
  { "MAX", TPS_POOLING_MAX },
  { NULL },
};

static const TpsEnum pooling_enum = { "Pooling", poolings };

static const TpsField query_fields[] = {
  { "table", 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL, G_STRUCT_OFFSET (WireQuery, table) },
  { "indices", 2, TPS_FIELD_REQUIRED, &bag_tensor_kind, &indices_type,
    G_STRUCT_OFFSET (WireQuery, indices) },
  { "offsets", 3, TPS_FIELD_REQUIRED, &bag_tensor_kind, &offsets_type,
    G_STRUCT_OFFSET (WireQuery, offsets) },
  { "pooling", 4, TPS_FIELD_REQUIRED, &tps_kind_enum, &pooling_enum,
    G_STRUCT_OFFSET (WireQuery, pooling) },
  { "weights", 5, TPS_FIELD_OPTIONAL, &bag_tensor_kind, &weights_type,
    G_STRUCT_OFFSET (WireQuery, weights) },
  { NULL },
};

static const TpsStruct query_struct = { "BagQuery", query_fields };

static const TpsField gradient_fields[] = {
  { "query", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &query_struct,
    G_STRUCT_OFFSET (WireGradient, query) },
  { "gradient", 2, TPS_FIELD_REQUIRED, &bag_tensor_kind, &gradient_type,
    G_STRUCT_OFFSET (WireGradient, gradient) },
  { NULL },
};

static const TpsStruct gradient_struct = { "BagGradient", gradient_fields };

static void
clear_wire (WireGradient *wire)
{
  g_free (wire->query.table);
  tps_tensor_clear (&wire->query.indices.tensor);
  tps_tensor_clear (&wire->query.offsets.tensor);
  tps_tensor_clear (&wire->query.weights.tensor);
  tps_tensor_clear (&wire->gradient.tensor);
}

/* Sets `view`, which is zero, to a view of the tensor, and moves its buffer to `owned`. If there is
 * no memory, returns FALSE, and the tensor keeps its buffer. */
static gboolean
take_view (BagTensor *value, TpsTensorView *view, TpsOwnedBuffers *owned, GError **error)
{
  gpointer buffers = owned->buffers;
  TpsBuffer **buffer;

  if (tps_tensor_is_empty (&value->tensor))
    return TRUE;
  buffer = tps_growing_array_add (&buffers, &owned->n_buffers, sizeof *buffer, error);
  owned->buffers = buffers;
  if (buffer == NULL)
    return FALSE;
  *view = tps_tensor_view (&value->tensor);
  *buffer = g_steal_pointer (&value->tensor.buffer);
  return TRUE;
}

static gboolean
take_query (WireQuery *wire, TpsBagQuery *query, TpsOwnedBuffers *owned, GError **error)
{
  query->table = g_steal_pointer (&wire->table);
  query->pooling = wire->pooling;
  return take_view (&wire->indices, &query->indices, owned, error)
         && take_view (&wire->offsets, &query->offsets, owned, error)
         && take_view (&wire->weights, &query->weights, owned, error);
}

static WireQuery
borrow_query (const TpsBagQuery *query)
{
  return (WireQuery) {
    .table = (gchar *) (gsize) query->table,
    .indices = { .view = &query->indices },
    .offsets = { .view = &query->offsets },
    .weights = { .view = &query->weights },
    .pooling = query->pooling,
  };
}

/* ---- lists of BagQuery and BagGradient ------------------------------------------------------ */

typedef struct
{
  const TpsStruct *type;
  gsize elem_size;
  gboolean (*take) (WireGradient *wire, gpointer elem, TpsOwnedBuffers *owned, GError **error);
} BagsType;

/* Reads a list of structs of `bags->type` into an array of elements of `bags->elem_size` bytes. */
static gboolean
read_bags (TpsReader *in, const TpsFieldPath *path, const BagsType *bags, gpointer *elems,
           guint *n_elems, TpsOwnedBuffers *owned, GError **error)
{
  guint32 n_wanted;

  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_wanted, error))
    return FALSE;
  for (guint32 i = 0; i < n_wanted; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };
      WireGradient wire = { 0 };
      gpointer elem = NULL;

      if (tps_struct_read (bags->type, in, &at, &wire, error))
        elem = tps_growing_array_add (elems, n_elems, bags->elem_size, error);
      if (elem == NULL || !bags->take (&wire, elem, owned, error))
        {
          clear_wire (&wire);
          return FALSE;
        }
    }
  return TRUE;
}

static void
free_owned (TpsOwnedBuffers *owned)
{
  for (guint i = 0; i < owned->n_buffers; i++)
    tps_buffer_unref (owned->buffers[i]);
  g_free (owned->buffers);
  g_free (owned);
}

static gboolean
take_lookup (WireGradient *wire, gpointer query, TpsOwnedBuffers *owned, GError **error)
{
  return take_query (&wire->query, query, owned, error);
}

static const BagsType lookups = { &query_struct, sizeof (TpsBagQuery), take_lookup };

static gboolean
read_queries (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
              GError **error)
{
  TpsLookupBagsArguments *arguments = object;
  gpointer queries = NULL;
  gboolean ok;

  arguments->owned = g_new0 (TpsOwnedBuffers, 1);
  ok = read_bags (in, path, &lookups, &queries, &arguments->n_queries, arguments->owned, error);
  arguments->queries = queries;
  return ok;
}

static void
write_queries (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsLookupBagsArguments *arguments = object;

  tps_writer_list_begin (out, TPS_WIRE_STRUCT, arguments->n_queries);
  for (guint i = 0; i < arguments->n_queries; i++)
    {
      WireQuery wire = borrow_query (&arguments->queries[i]);

      tps_struct_write (&query_struct, out, &wire);
    }
}

static gboolean
take_gradient (WireGradient *wire, gpointer elem, TpsOwnedBuffers *owned, GError **error)
{
  TpsBagGradient *gradient = elem;

  return take_query (&wire->query, &gradient->query, owned, error)
         && take_view (&wire->gradient, &gradient->gradient, owned, error);
}

static const BagsType updates = { &gradient_struct, sizeof (TpsBagGradient), take_gradient };

static gboolean
read_gradients (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                GError **error)
{
  TpsApplyBagGradientsArguments *arguments = object;
  gpointer gradients = NULL;
  gboolean ok;

  arguments->owned = g_new0 (TpsOwnedBuffers, 1);
  ok = read_bags (in, path, &updates, &gradients, &arguments->n_gradients, arguments->owned, error);
  arguments->gradients = gradients;
  return ok;
}

static void
write_gradients (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsApplyBagGradientsArguments *arguments = object;

  tps_writer_list_begin (out, TPS_WIRE_STRUCT, arguments->n_gradients);
  for (guint i = 0; i < arguments->n_gradients; i++)
    {
      const TpsBagGradient *gradient = &arguments->gradients[i];
      WireGradient wire = { .query = borrow_query (&gradient->query),
                            .gradient = { .view = &gradient->gradient } };

      tps_struct_write (&gradient_struct, out, &wire);
    }
}

/* The object of both kinds is the whole arguments struct. */
static const TpsValueKind queries_kind = { TPS_WIRE_LIST, "list<BagQuery>", read_queries,
                                           write_queries };
static const TpsValueKind gradients_kind = { TPS_WIRE_LIST, "list<BagGradient>", read_gradients,
                                             write_gradients };

/* ---- lookup_bags, lookup_rows --------------------------------------------------------------- */

static const TpsField lookup_bags_arguments[] = {
  { "queries", 1, TPS_FIELD_REQUIRED, &queries_kind, &query_struct },
  { NULL },
};

static const TpsField lookup_rows_arguments[] = {
  { "table", 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL,
    G_STRUCT_OFFSET (TpsLookupRowsArguments, table) },
  { "indices", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_indices_struct,
    G_STRUCT_OFFSET (TpsLookupRowsArguments, indices) },
  { NULL },
};

/* Results lie in memory of a device only if the client has opened segments for lookups there. */
static const TpsField outputs_result = { "outputs", .kind = &tps_kind_list,
                                         .of = &tps_device_tensors };
static const TpsField rows_result = { "rows", .kind = &tps_kind_struct,
                                      .of = &tps_device_tensor_struct };

const TpsRpc tps_lookup_bags_rpc = { SERVICE, "lookup_bags", lookup_bags_arguments,
                                     &outputs_result };
const TpsRpc tps_lookup_rows_rpc = { SERVICE, "lookup_rows", lookup_rows_arguments, &rows_result };

static const TpsField rows_with_lsns_fields[] = {
  { "rows", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct,
    G_STRUCT_OFFSET (TpsRowsWithLsns, rows) },
  { "lsns", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_indices_struct,
    G_STRUCT_OFFSET (TpsRowsWithLsns, lsns) },
  { NULL },
};

static const TpsStruct rows_with_lsns_struct = { "RowsWithLsns", rows_with_lsns_fields };
static const TpsField rows_with_lsns_result = { "rows", .kind = &tps_kind_struct,
                                                .of = &rows_with_lsns_struct };

const TpsRpc tps_lookup_rows_with_lsns_rpc = { SERVICE, "lookup_rows_with_lsns",
                                               lookup_rows_arguments, &rows_with_lsns_result };

void
tps_rows_with_lsns_clear (TpsRowsWithLsns *rows)
{
  tps_tensor_clear (&rows->rows);
  tps_tensor_clear (&rows->lsns);
}

void
tps_lookup_bags_arguments_clear (TpsLookupBagsArguments *arguments)
{
  for (guint i = 0; arguments->owned != NULL && i < arguments->n_queries; i++)
    g_free ((gpointer) (gsize) arguments->queries[i].table);
  g_clear_pointer (&arguments->queries, g_free);
  g_clear_pointer (&arguments->owned, free_owned);
  arguments->n_queries = 0;
}

void
tps_lookup_rows_arguments_clear (TpsLookupRowsArguments *arguments)
{
  g_clear_pointer (&arguments->table, g_free);
  tps_tensor_clear (&arguments->indices);
}

/* ---- apply_row_gradients, apply_bag_gradients ----------------------------------------------- */

static const TpsField apply_row_gradients_arguments[] = {
  { "table", 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL,
    G_STRUCT_OFFSET (TpsApplyRowGradientsArguments, table) },
  { "gradient", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_row_gradient_struct,
    G_STRUCT_OFFSET (TpsApplyRowGradientsArguments, gradient) },
  { "push", 3, TPS_FIELD_OPTIONAL, &tps_kind_struct, &tps_push_id_struct,
    G_STRUCT_OFFSET (TpsApplyRowGradientsArguments, push) },
  { NULL },
};

static const TpsField apply_bag_gradients_arguments[] = {
  { "gradients", 1, TPS_FIELD_REQUIRED, &gradients_kind, &gradient_struct },
  { "push", 2, TPS_FIELD_OPTIONAL, &tps_kind_struct, &tps_push_id_struct,
    G_STRUCT_OFFSET (TpsApplyBagGradientsArguments, push) },
  { NULL },
};

const TpsRpc tps_apply_row_gradients_rpc = { SERVICE, "apply_row_gradients",
                                             apply_row_gradients_arguments };
const TpsRpc tps_apply_bag_gradients_rpc = { SERVICE, "apply_bag_gradients",
                                             apply_bag_gradients_arguments };

static const TpsField assign_rows_arguments[] = {
  { "table", 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL,
    G_STRUCT_OFFSET (TpsAssignRowsArguments, table) },
  { "indices", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_indices_struct,
    G_STRUCT_OFFSET (TpsAssignRowsArguments, indices) },
  { "values", 3, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct,
    G_STRUCT_OFFSET (TpsAssignRowsArguments, values) },
  { "lsn", 4, TPS_FIELD_DEFAULT, &tps_kind_i64, &tps_limit_not_negative,
    G_STRUCT_OFFSET (TpsAssignRowsArguments, lsn) },
  { "push", 5, TPS_FIELD_OPTIONAL, &tps_kind_struct, &tps_push_id_struct,
    G_STRUCT_OFFSET (TpsAssignRowsArguments, push) },
  { NULL },
};

const TpsRpc tps_assign_rows_rpc = { SERVICE, "assign_rows", assign_rows_arguments };

void
tps_assign_rows_arguments_clear (TpsAssignRowsArguments *arguments)
{
  g_clear_pointer (&arguments->table, g_free);
  tps_tensor_clear (&arguments->indices);
  tps_tensor_clear (&arguments->values);
  tps_push_id_clear (&arguments->push);
}

void
tps_apply_row_gradients_arguments_clear (TpsApplyRowGradientsArguments *arguments)
{
  g_clear_pointer (&arguments->table, g_free);
  tps_gradient_clear (&arguments->gradient);
  tps_push_id_clear (&arguments->push);
}

void
tps_apply_bag_gradients_arguments_clear (TpsApplyBagGradientsArguments *arguments)
{
  for (guint i = 0; arguments->owned != NULL && i < arguments->n_gradients; i++)
    g_free ((gpointer) (gsize) arguments->gradients[i].query.table);
  g_clear_pointer (&arguments->gradients, g_free);
  g_clear_pointer (&arguments->owned, free_owned);
  tps_push_id_clear (&arguments->push);
  arguments->n_gradients = 0;
}
