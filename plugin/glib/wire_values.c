/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/glib/wire_values.h"

#include "plugin/wire/tensor_codec.h"
#include "runtime/base/error.h"

/* ---- tensors --------------------------------------------------------------------------------- */

static gboolean
check_bytes (const TpsWireTensor *wire, const TpsShape *shape, const gchar *name, GError **error)
{
  gsize n_bytes = wire->data != NULL ? wire->data->len : 0;
  g_autofree gchar *text = NULL;

  if (n_bytes == tps_shape_n_bytes (shape))
    return TRUE;
  text = tps_shape_to_string (shape);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s.data has %" G_GSIZE_FORMAT " bytes, %s needs %" G_GSIZE_FORMAT, name,
                   n_bytes, text, tps_shape_n_bytes (shape));
}

gboolean
tps_tensor_view_from_wire (const TpsWireTensor *wire, const gchar *name, TpsTensorView *view,
                           GError **error)
{
  TpsTensorView seen = { .data = wire->data != NULL ? wire->data->data : NULL };

  if (wire->__isset_shared)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.shared is set, but this message has no shared memory", name);
  if (wire->shape == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s has no shape", name);
  if (!tps_shape_init (&seen.shape, (gint) wire->dtype, wire->shape->len,
                       (const gint64 *) (gconstpointer) wire->shape->data, name, error)
      || !check_bytes (wire, &seen.shape, name, error))
    return FALSE;
  *view = seen;
  return TRUE;
}

static void
unref_bytes (gpointer bytes)
{
  g_byte_array_unref (bytes);
}

gboolean
tps_tensor_from_wire (const TpsWireTensor *wire, const gchar *name, TpsTensor *tensor,
                      GError **error)
{
  TpsTensorView view;

  if (!tps_tensor_view_from_wire (wire, name, &view, error))
    return FALSE;
  if (wire->data == NULL) /* the tensor has no elements */
    tps_tensor_init (tensor, &view.shape);
  else
    tps_tensor_init_take (tensor, &view.shape,
                          tps_buffer_new_foreign (wire->data->data, wire->data->len, NULL,
                                                  unref_bytes, g_byte_array_ref (wire->data)),
                          0);
  return TRUE;
}

TpsWireTensor *
tps_tensor_view_to_wire (TpsTensorView view)
{
  gsize n_bytes = tps_shape_n_bytes (&view.shape);
  TpsWireTensor *wire;

  g_return_val_if_fail (n_bytes <= G_MAXUINT, NULL);
  wire = g_object_new (TPS_WIRE_TYPE_TENSOR, NULL);
  wire->dtype = (TpsWireDType) view.shape.dtype;
  wire->__isset_dtype = TRUE;
  g_array_append_vals (wire->shape, view.shape.dims, view.shape.n_dims);
  wire->data = g_byte_array_sized_new ((guint) n_bytes);
  if (n_bytes > 0)
    g_byte_array_append (wire->data, view.data, (guint) n_bytes);
  wire->__isset_data = TRUE;
  return wire;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The elements are not copied. The checks correspond to those of the reader for gradients in
 * messages (plugin/wire/tensor_codec.h). */

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

/* ---- failures -------------------------------------------------------------------------------- */

TpsWireServiceError *
tps_service_error_to_wire (const GError *error)
{
  TpsWireServiceError *failure = g_object_new (TPS_WIRE_TYPE_SERVICE_ERROR, NULL);
  gint retry_after_ms = error->domain == TPS_ERROR ? tps_error_get_retry_after_ms (error) : -1;

  failure->code = (TpsWireErrorCode) tps_error_to_wire_code (error);
  failure->__isset_code = TRUE;
  failure->message = g_strdup (error->message);
  failure->retry_after_ms = MAX (retry_after_ms, 0);
  failure->__isset_retry_after_ms = retry_after_ms >= 0;
  return failure;
}

GError *
tps_service_error_from_wire (const TpsWireServiceError *failure)
{
  GError *error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code ((gint) failure->code),
                                       failure->message != NULL ? failure->message : "");

  if (failure->__isset_retry_after_ms)
    tps_error_set_retry_after_ms (error, failure->retry_after_ms);
  return error;
}
