/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions of gradients, which do not copy the elements. The checks correspond to those of the
 * reader for gradients in messages (plugin/wire/tensor_codec.h). */

#include "plugin/glib/wire_values.h"
#include "plugin/wire/tensor_codec.h"

/* ---- from generated objects ----------------------------------------------------------------- */

/* Reads a tensor that is the field `name` of `parent`. If `wire` is NULL, the field is missing. */
static gboolean
read_field (const TpsWireTensor *wire, const gchar *parent, const gchar *name, TpsTensor *tensor,
            GError **error)
{
  g_autofree gchar *path = g_strconcat (parent, ".", name, NULL);
  TpsFieldPath at = { .name = path };

  if (wire == NULL)
    return tps_field_refuse (&at, error, "is missing");
  return tps_tensor_from_wire (wire, path, tensor, error);
}

static gboolean
read_sparse (const TpsWireSparseTensor *wire, const gchar *name, TpsGradient *gradient,
             GError **error)
{
  const TpsFieldPath path = { .name = name };
  const GArray *shape = wire->shape;

  gradient->kind = TPS_GRADIENT_SPARSE;
  gradient->weight = 1;
  if (shape == NULL)
    return tps_field_refuse (&path, error, "has no shape");
  if (!read_field (wire->indices, name, "indices", &gradient->indices, error)
      || !read_field (wire->values, name, "values", &gradient->values, error)
      || !tps_sparse_check (&path, &gradient->values.shape, (const gint64 *) (gpointer) shape->data,
                            shape->len, error))
    return FALSE;
  gradient->rows = g_array_index (shape, gint64, 0);
  return TRUE;
}

gboolean
tps_sparse_gradient_from_wire (const TpsWireSparseTensor *wire, const gchar *name,
                               TpsGradient *gradient, GError **error)
{
  g_auto (TpsGradient) seen = { 0 };

  if (!read_sparse (wire, name, &seen, error))
    return FALSE;
  tps_gradient_move (gradient, &seen);
  return TRUE;
}

static gboolean
read_gradient (const TpsWireGradient *wire, const gchar *name, TpsGradient *gradient,
               GError **error)
{
  const TpsFieldPath path = { .name = name };
  g_autofree gchar *sparse = g_strconcat (name, ".sparse", NULL);

  if (!tps_gradient_check_form (&path, wire->__isset_dense, wire->__isset_sparse, error))
    return FALSE;
  if (wire->__isset_sparse)
    return read_sparse (wire->sparse, sparse, gradient, error);
  if (!wire->__isset_dense)
    return TRUE;
  gradient->kind = TPS_GRADIENT_DENSE;
  return read_field (wire->dense, name, "dense", &gradient->dense, error);
}

gboolean
tps_gradient_from_wire (const TpsWireGradient *wire, const gchar *name, TpsGradient *gradient,
                        GError **error)
{
  g_auto (TpsGradient) seen = { 0 };

  if (!read_gradient (wire, name, &seen, error))
    return FALSE;
  seen.weight = wire->__isset_weight ? wire->weight : 1;
  tps_gradient_move (gradient, &seen);
  return TRUE;
}

/* ---- to generated objects ------------------------------------------------------------------- */

static void
set_tensor (gpointer wire, const gchar *property, const TpsTensor *tensor)
{
  TpsWireTensor *value = tps_tensor_view_to_wire (tps_tensor_view (tensor));

  g_object_set (wire, property, value, NULL);
  g_object_unref (value);
}

TpsWireSparseTensor *
tps_sparse_gradient_to_wire (const TpsGradient *gradient)
{
  TpsWireSparseTensor *wire = g_object_new (TPS_WIRE_TYPE_SPARSE_TENSOR, NULL);
  gint64 shape[] = { gradient->rows, gradient->values.shape.dims[1] };

  set_tensor (wire, "indices", &gradient->indices);
  set_tensor (wire, "values", &gradient->values);
  g_array_append_vals (wire->shape, shape, G_N_ELEMENTS (shape));
  return wire;
}

TpsWireGradient *
tps_gradient_to_wire (const TpsGradient *gradient)
{
  TpsWireGradient *wire = g_object_new (TPS_WIRE_TYPE_GRADIENT, "weight", gradient->weight, NULL);
  TpsWireSparseTensor *sparse;

  if (gradient->kind == TPS_GRADIENT_DENSE)
    set_tensor (wire, "dense", &gradient->dense);
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    {
      sparse = tps_sparse_gradient_to_wire (gradient);
      g_object_set (wire, "sparse", sparse, NULL);
      g_object_unref (sparse);
    }
  return wire;
}
