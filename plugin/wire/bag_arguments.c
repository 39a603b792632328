/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/bag_arguments.h"

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_forms.h"
#include "runtime/base/growing_array.h"

/* ---- tensors of queries --------------------------------------------------------------------- */

struct TpsBagTensorType
{
  TpsDType dtype;
  guint n_dims;
  const gchar *name;
};

const TpsBagTensorType tps_bag_indices_type = { TPS_DTYPE_INT64, 1, "INT64 [nnz]" };
const TpsBagTensorType tps_bag_offsets_type = { TPS_DTYPE_INT64, 1, "INT64 [bags]" };
const TpsBagTensorType tps_bag_weights_type = { TPS_DTYPE_FLOAT32, 1, "FLOAT32 [nnz]" };
const TpsBagTensorType tps_bag_gradient_type = { TPS_DTYPE_FLOAT32, 2, "FLOAT32 [bags, dim]" };

static gboolean
read_bag_tensor (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
                 GError **error)
{
  const TpsBagTensorType *type = field->of;
  TpsBagTensor *value = TPS_FIELD_VALUE (field, object);

  return tps_tensor_decode_as (in, path, type->dtype, type->n_dims, type->name, &value->tensor,
                               error);
}

static void
write_bag_tensor (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsBagTensor *value = TPS_FIELD_CONST_VALUE (field, object);

  tps_tensor_encode_borrowed (out, *value->view);
}

static gboolean
is_bag_tensor_set (const TpsField *field, gconstpointer object)
{
  const TpsBagTensor *value = TPS_FIELD_CONST_VALUE (field, object);

  return value->view->shape.dtype != 0;
}

const TpsValueKind tps_kind_bag_tensor = { TPS_WIRE_STRUCT, read_bag_tensor, write_bag_tensor,
                                           is_bag_tensor_set };

/* ---- BagQuery, BagGradient ------------------------------------------------------------------ */

/* Sets `view`, which is zero, to a view of the tensor, and moves its buffer to `owned`. If there is
 * no memory, returns FALSE, and the tensor keeps its buffer. */
static gboolean
take_view (TpsBagTensor *value, TpsTensorView *view, TpsOwnedBuffers *owned, GError **error)
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
take_query (TpsBagQueryForm *wire, TpsBagQuery *query, TpsOwnedBuffers *owned, GError **error)
{
  query->table = g_steal_pointer (&wire->table);
  query->pooling = wire->pooling;
  return take_view (&wire->indices, &query->indices, owned, error)
         && take_view (&wire->offsets, &query->offsets, owned, error)
         && take_view (&wire->weights, &query->weights, owned, error);
}

static TpsBagQueryForm
borrow_query (const TpsBagQuery *query)
{
  return (TpsBagQueryForm) {
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
  gboolean (*take) (TpsBagGradientForm *wire, gpointer elem, TpsOwnedBuffers *owned,
                    GError **error);
} BagsType;

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
      TpsBagGradientForm wire = { 0 };
      gpointer elem = NULL;

      if (tps_struct_read (bags->type, in, &at, &wire, error))
        elem = tps_growing_array_add (elems, n_elems, bags->elem_size, error);
      if (elem == NULL || !bags->take (&wire, elem, owned, error))
        {
          g_free (wire.query.table);
          tps_tensor_clear (&wire.query.indices.tensor);
          tps_tensor_clear (&wire.query.offsets.tensor);
          tps_tensor_clear (&wire.query.weights.tensor);
          tps_tensor_clear (&wire.gradient.tensor);
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
take_lookup (TpsBagGradientForm *wire, gpointer query, TpsOwnedBuffers *owned, GError **error)
{
  return take_query (&wire->query, query, owned, error);
}

static const BagsType lookups = { &tps_bag_query_struct, sizeof (TpsBagQuery), take_lookup };

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
      TpsBagQueryForm wire = borrow_query (&arguments->queries[i]);

      tps_struct_write (&tps_bag_query_struct, out, &wire);
    }
}

static gboolean
take_gradient (TpsBagGradientForm *wire, gpointer elem, TpsOwnedBuffers *owned, GError **error)
{
  TpsBagGradient *gradient = elem;

  return take_query (&wire->query, &gradient->query, owned, error)
         && take_view (&wire->gradient, &gradient->gradient, owned, error);
}

static const BagsType updates = { &tps_bag_gradient_struct, sizeof (TpsBagGradient),
                                  take_gradient };

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
      TpsBagGradientForm wire = { .query = borrow_query (&gradient->query),
                                  .gradient = { .view = &gradient->gradient } };

      tps_struct_write (&tps_bag_gradient_struct, out, &wire);
    }
}

/* The object of both kinds is the whole arguments struct. */
const TpsValueKind tps_kind_bag_queries = { TPS_WIRE_LIST, read_queries, write_queries };
const TpsValueKind tps_kind_bag_gradients = { TPS_WIRE_LIST, read_gradients, write_gradients };

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
tps_apply_bag_gradients_arguments_clear (TpsApplyBagGradientsArguments *arguments)
{
  for (guint i = 0; arguments->owned != NULL && i < arguments->n_gradients; i++)
    g_free ((gpointer) (gsize) arguments->gradients[i].query.table);
  g_clear_pointer (&arguments->gradients, g_free);
  g_clear_pointer (&arguments->owned, free_owned);
  tps_push_id_clear (&arguments->push);
  arguments->n_gradients = 0;
}
