/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The methods that look rows up and update them; TableSpec is in wire_table_spec.c. */

#include "plugin/wire/wire_embedding_table.h"

/* ---- tensors of a given kind ---------------------------------------------------------------- */

static gboolean
read_kind (TpsReader *in, const TpsFieldPath *path, TpsTensor *tensor, TpsDType dtype, guint n_dims,
           const gchar *expected, GError **error)
{
  g_autofree gchar *text = NULL;

  if (!tps_tensor_decode (in, path, tensor, error))
    return FALSE;
  if (tensor->shape.dtype == dtype && tensor->shape.n_dims == n_dims)
    return TRUE;
  text = tps_shape_to_string (&tensor->shape);
  return tps_field_refuse (path, error, "is %s, expected %s", text, expected);
}

static gboolean
read_indices (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return read_kind (in, path, tensor, TPS_DTYPE_INT64, 1, "INT64 [nnz]", error);
}

static gboolean
read_offsets (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return read_kind (in, path, tensor, TPS_DTYPE_INT64, 1, "INT64 [bags]", error);
}

static gboolean
read_weights (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return read_kind (in, path, tensor, TPS_DTYPE_FLOAT32, 1, "FLOAT32 [nnz]", error);
}

static gboolean
read_bag_gradient (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return read_kind (in, path, tensor, TPS_DTYPE_FLOAT32, 2, "FLOAT32 [bags, dim]", error);
}

/* ---- BagQuery, BagGradient: reading --------------------------------------------------------- */

/* What is received of a BagQuery or BagGradient; the arguments hold views of it. */
typedef struct
{
  gchar *table;
  TpsTensor indices, offsets, weights;
  TpsPooling pooling;
  TpsTensor gradient; /* BagGradient only */
} ReceivedBags;

static void
free_bags (gpointer data)
{
  ReceivedBags *bags = data;

  g_free (bags->table);
  tps_tensor_clear (&bags->indices);
  tps_tensor_clear (&bags->offsets);
  tps_tensor_clear (&bags->weights);
  tps_tensor_clear (&bags->gradient);
  g_free (bags);
}

static gboolean
read_pooling (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 pooling = tps_reader_i32 (in);

  if (pooling < TPS_POOLING_SUM || pooling > TPS_POOLING_MAX)
    return tps_field_refuse (path, error, "is %d, which is no Pooling", pooling);
  *(TpsPooling *) target = (TpsPooling) pooling;
  return TRUE;
}

static const TpsFieldSpec query_fields[] = {
  { "table", 1, TPS_WIRE_BINARY, .required = TRUE, .offset = G_STRUCT_OFFSET (ReceivedBags, table),
    .read = tps_field_read_name },
  { "indices", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (ReceivedBags, indices), .read = read_indices },
  { "offsets", 3, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (ReceivedBags, offsets), .read = read_offsets },
  { "pooling", 4, TPS_WIRE_I32, .required = TRUE, .offset = G_STRUCT_OFFSET (ReceivedBags, pooling),
    .read = read_pooling },
  { "weights", 5, TPS_WIRE_STRUCT, .offset = G_STRUCT_OFFSET (ReceivedBags, weights),
    .read = read_weights },
  { NULL },
};

static gboolean
read_query (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_fields_read (in, path, query_fields, target, NULL, error);
}

static const TpsFieldSpec bag_gradient_fields[] = {
  { "query", 1, TPS_WIRE_STRUCT, .required = TRUE, .read = read_query },
  { "gradient", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (ReceivedBags, gradient), .read = read_bag_gradient },
  { NULL },
};

/* Reads a list of structs into a new array of ReceivedBags. It grows with what is read: a struct of the wire may be a
 * byte, ours are not. */
static gboolean
read_bags_list (TpsReader *in, const TpsFieldPath *path, const TpsFieldSpec *fields,
                GPtrArray **owned, GError **error)
{
  guint32 n_elems;

  g_clear_pointer (owned, g_ptr_array_unref);
  *owned = g_ptr_array_new_with_free_func (free_bags);
  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };
      ReceivedBags *bags = g_new0 (ReceivedBags, 1);

      g_ptr_array_add (*owned, bags);
      if (!tps_fields_read (in, &at, fields, bags, NULL, error))
        return FALSE;
    }
  return TRUE;
}

static TpsTensorView
view_of (const TpsTensor *tensor)
{
  return tps_tensor_is_empty (tensor) ? (TpsTensorView) { 0 } : tps_tensor_view (tensor);
}

static TpsBagQuery
get_query (const ReceivedBags *bags)
{
  return (TpsBagQuery) {
    .table = bags->table,
    .indices = view_of (&bags->indices),
    .offsets = view_of (&bags->offsets),
    .pooling = bags->pooling,
    .weights = view_of (&bags->weights),
  };
}

/* ---- BagQuery, BagGradient: writing --------------------------------------------------------- */

static void
encode_name (TpsWriter *out, const gchar *name)
{
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_string (out, name);
}

static void
encode_view (TpsWriter *out, gint16 id, TpsTensorView view)
{
  tps_writer_field (out, id, TPS_WIRE_STRUCT);
  tps_tensor_encode_borrowed (out, view);
}

static void
encode_query (TpsWriter *out, const TpsBagQuery *query)
{
  tps_writer_struct_begin (out);
  encode_name (out, query->table);
  encode_view (out, 2, query->indices);
  encode_view (out, 3, query->offsets);
  tps_writer_field (out, 4, TPS_WIRE_I32);
  tps_writer_i32 (out, (gint32) query->pooling);
  if (query->weights.shape.dtype != 0)
    encode_view (out, 5, query->weights);
  tps_writer_struct_end (out);
}

static void
encode_push (TpsWriter *out, gint16 id, const TpsPushId *push)
{
  if (push->client == NULL)
    return;
  tps_writer_field (out, id, TPS_WIRE_STRUCT);
  tps_push_id_encode (out, push);
}

static gboolean
read_push (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_push_id_decode (in, path, target, error);
}

/* ---- lookup_bags ---------------------------------------------------------------------------- */

static gboolean
read_queries (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return read_bags_list (in, path, query_fields, target, error);
}

static const TpsFieldSpec lookup_bags_fields[] = {
  { "queries", 1, TPS_WIRE_LIST, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsLookupBagsArguments, owned), .read = read_queries },
  { NULL },
};

gboolean
tps_lookup_bags_arguments_decode (TpsReader *in, TpsLookupBagsArguments *arguments, GError **error)
{
  if (!tps_fields_read (in, NULL, lookup_bags_fields, arguments, NULL, error))
    return FALSE;
  arguments->n_queries = arguments->owned->len;
  arguments->queries = g_new (TpsBagQuery, arguments->n_queries);
  for (guint i = 0; i < arguments->n_queries; i++)
    arguments->queries[i] = get_query (arguments->owned->pdata[i]);
  return TRUE;
}

void
tps_lookup_bags_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsLookupBagsArguments *arguments = data;

  tps_writer_field (out, 1, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, arguments->n_queries);
  for (guint i = 0; i < arguments->n_queries; i++)
    encode_query (out, &arguments->queries[i]);
}

void
tps_lookup_bags_arguments_clear (TpsLookupBagsArguments *arguments)
{
  g_clear_pointer (&arguments->queries, g_free);
  g_clear_pointer (&arguments->owned, g_ptr_array_unref);
  arguments->n_queries = 0;
}

void
tps_tensor_list_clear (TpsTensorList *list)
{
  for (guint i = 0; i < list->n_tensors; i++)
    tps_tensor_clear (&list->tensors[i]);
  g_clear_pointer (&list->tensors, g_free);
  list->n_tensors = 0;
}

void
tps_lookup_bags_result_encode (TpsWriter *out, gconstpointer data)
{
  const TpsTensorList *list = data;

  tps_writer_field (out, 0, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, list->n_tensors);
  for (guint i = 0; i < list->n_tensors; i++)
    tps_tensor_encode (out, &list->tensors[i]);
}

static gboolean
read_tensors (TpsReader *in, const TpsFieldPath *path, GArray *tensors, GError **error)
{
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };

      g_array_set_size (tensors, i + 1); /* zeroed */
      if (!tps_tensor_decode (in, &at, &g_array_index (tensors, TpsTensor, i), error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tps_lookup_bags_result_decode (TpsReader *in, TpsWireType type, gpointer target, GError **error)
{
  TpsFieldPath path = { .name = "outputs" };
  GArray *tensors = g_array_new (FALSE, TRUE, sizeof (TpsTensor));
  TpsTensorList *list = target;
  gboolean ok = tps_field_check_type (&path, type, TPS_WIRE_LIST, error)
                && read_tensors (in, &path, tensors, error);

  tps_tensor_list_clear (list);
  list->n_tensors = tensors->len;
  list->tensors = (TpsTensor *) (gpointer) g_array_free (tensors, FALSE);
  if (!ok)
    tps_tensor_list_clear (list);
  return ok;
}

/* ---- lookup_rows ---------------------------------------------------------------------------- */

static const TpsFieldSpec lookup_rows_fields[] = {
  { "table", 1, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsLookupRowsArguments, table), .read = tps_field_read_name },
  { "indices", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsLookupRowsArguments, indices), .read = read_indices },
  { NULL },
};

gboolean
tps_lookup_rows_arguments_decode (TpsReader *in, TpsLookupRowsArguments *arguments, GError **error)
{
  return tps_fields_read (in, NULL, lookup_rows_fields, arguments, NULL, error);
}

void
tps_lookup_rows_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsLookupRowsArguments *arguments = data;

  encode_name (out, arguments->table);
  tps_writer_field (out, 2, TPS_WIRE_STRUCT);
  tps_tensor_encode (out, &arguments->indices);
}

void
tps_lookup_rows_arguments_clear (TpsLookupRowsArguments *arguments)
{
  g_clear_pointer (&arguments->table, g_free);
  tps_tensor_clear (&arguments->indices);
}

void
tps_lookup_rows_result_encode (TpsWriter *out, gconstpointer tensor)
{
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_tensor_encode (out, tensor);
}

gboolean
tps_lookup_rows_result_decode (TpsReader *in, TpsWireType type, gpointer tensor, GError **error)
{
  TpsFieldPath path = { .name = "rows" };

  return tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
         && tps_tensor_decode (in, &path, tensor, error);
}

/* ---- apply_row_gradients -------------------------------------------------------------------- */

static gboolean
read_row_gradient (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsGradient *gradient = target;
  TpsFieldPath at = { .parent = path, .name = "indices" };
  g_autofree gchar *text = NULL;

  if (!tps_sparse_gradient_decode (in, path, gradient, error))
    return FALSE;
  if (gradient->indices.shape.dtype == TPS_DTYPE_INT64 && gradient->indices.shape.n_dims == 1)
    return TRUE;
  text = tps_shape_to_string (&gradient->indices.shape);
  return tps_field_refuse (&at, error, "is %s, expected INT64 [nnz]", text);
}

static const TpsFieldSpec apply_row_gradients_fields[] = {
  { "table", 1, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsApplyRowGradientsArguments, table), .read = tps_field_read_name },
  { "gradient", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsApplyRowGradientsArguments, gradient),
    .read = read_row_gradient },
  { "push", 3, TPS_WIRE_STRUCT, .offset = G_STRUCT_OFFSET (TpsApplyRowGradientsArguments, push),
    .read = read_push },
  { NULL },
};

gboolean
tps_apply_row_gradients_arguments_decode (TpsReader *in, TpsApplyRowGradientsArguments *arguments,
                                          GError **error)
{
  return tps_fields_read (in, NULL, apply_row_gradients_fields, arguments, NULL, error);
}

void
tps_apply_row_gradients_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsApplyRowGradientsArguments *arguments = data;

  encode_name (out, arguments->table);
  tps_writer_field (out, 2, TPS_WIRE_STRUCT);
  tps_sparse_gradient_encode (out, &arguments->gradient);
  encode_push (out, 3, &arguments->push);
}

void
tps_apply_row_gradients_arguments_clear (TpsApplyRowGradientsArguments *arguments)
{
  g_clear_pointer (&arguments->table, g_free);
  tps_gradient_clear (&arguments->gradient);
  tps_push_id_clear (&arguments->push);
}

/* ---- apply_bag_gradients -------------------------------------------------------------------- */

static gboolean
read_bag_gradients (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return read_bags_list (in, path, bag_gradient_fields, target, error);
}

static const TpsFieldSpec apply_bag_gradients_fields[] = {
  { "gradients", 1, TPS_WIRE_LIST, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsApplyBagGradientsArguments, owned), .read = read_bag_gradients },
  { "push", 2, TPS_WIRE_STRUCT, .offset = G_STRUCT_OFFSET (TpsApplyBagGradientsArguments, push),
    .read = read_push },
  { NULL },
};

gboolean
tps_apply_bag_gradients_arguments_decode (TpsReader *in, TpsApplyBagGradientsArguments *arguments,
                                          GError **error)
{
  if (!tps_fields_read (in, NULL, apply_bag_gradients_fields, arguments, NULL, error))
    return FALSE;
  arguments->n_gradients = arguments->owned->len;
  arguments->gradients = g_new (TpsBagGradient, arguments->n_gradients);
  for (guint i = 0; i < arguments->n_gradients; i++)
    {
      const ReceivedBags *bags = arguments->owned->pdata[i];

      arguments->gradients[i].query = get_query (bags);
      arguments->gradients[i].gradient = view_of (&bags->gradient);
    }
  return TRUE;
}

void
tps_apply_bag_gradients_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsApplyBagGradientsArguments *arguments = data;

  tps_writer_field (out, 1, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, arguments->n_gradients);
  for (guint i = 0; i < arguments->n_gradients; i++)
    {
      tps_writer_struct_begin (out);
      tps_writer_field (out, 1, TPS_WIRE_STRUCT);
      encode_query (out, &arguments->gradients[i].query);
      encode_view (out, 2, arguments->gradients[i].gradient);
      tps_writer_struct_end (out);
    }
  encode_push (out, 2, &arguments->push);
}

void
tps_apply_bag_gradients_arguments_clear (TpsApplyBagGradientsArguments *arguments)
{
  g_clear_pointer (&arguments->gradients, g_free);
  g_clear_pointer (&arguments->owned, g_ptr_array_unref);
  tps_push_id_clear (&arguments->push);
  arguments->n_gradients = 0;
}
