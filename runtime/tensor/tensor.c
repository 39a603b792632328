/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/tensor.h"

#include <string.h>

#include "runtime/base/error.h"

gboolean
tps_shape_init (TpsShape *shape, gint dtype, guint n_dims, const gint64 *dims, const gchar *what,
                GError **error)
{
  gint64 n_bytes;

  if (!tps_dtype_is_valid (dtype))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: unknown dtype %d", what, dtype);
  if (n_dims > TPS_TENSOR_MAX_DIMS)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %u dimensions, at most %d are allowed",
                     what, n_dims, TPS_TENSOR_MAX_DIMS);
  n_bytes = (gint64) tps_dtype_size ((TpsDType) dtype);
  for (guint i = 0; i < n_dims; i++)
    {
      if (dims[i] < 0)
        return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                         "%s: dimension %u is negative: %" G_GINT64_FORMAT, what, i, dims[i]);
    }
  /* Even if a dimension is 0, the product of the other dimensions must be representable. */
  for (guint i = 0; i < n_dims; i++)
    if (dims[i] > 0 && __builtin_mul_overflow (n_bytes, dims[i], &n_bytes))
      return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: the shape overflows", what);
  memset (shape, 0, sizeof *shape);
  shape->dtype = (TpsDType) dtype;
  shape->n_dims = n_dims;
  for (guint i = 0; i < n_dims; i++)
    shape->dims[i] = dims[i];
  return TRUE;
}

gint64
tps_shape_n_elems (const TpsShape *shape)
{
  gint64 n_elems = 1;

  for (guint i = 0; i < shape->n_dims; i++)
    n_elems *= shape->dims[i];
  return n_elems;
}

gsize
tps_shape_n_bytes (const TpsShape *shape)
{
  return (gsize) tps_shape_n_elems (shape) * tps_dtype_size (shape->dtype);
}

gboolean
tps_shape_equal (const TpsShape *a, const TpsShape *b)
{
  return a->dtype == b->dtype && a->n_dims == b->n_dims
         && memcmp (a->dims, b->dims, a->n_dims * sizeof a->dims[0]) == 0;
}

gchar *
tps_shape_to_string (const TpsShape *shape)
{
  GString *text = g_string_new (tps_dtype_name (shape->dtype));

  g_string_append (text, " [");
  for (guint i = 0; i < shape->n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape->dims[i]);
  g_string_append_c (text, ']');
  return g_string_free (text, FALSE);
}

void
tps_tensor_init (TpsTensor *tensor, const TpsShape *shape)
{
  tps_tensor_init_take (tensor, shape, tps_buffer_new (tps_shape_n_bytes (shape)), 0);
}

void
tps_tensor_init_zeroed (TpsTensor *tensor, const TpsShape *shape)
{
  tps_tensor_init_take (tensor, shape, tps_buffer_new_zeroed (tps_shape_n_bytes (shape)), 0);
}

void
tps_tensor_init_1d (TpsTensor *tensor, TpsDType dtype, gint64 dim0)
{
  TpsShape shape = { .dtype = dtype, .n_dims = 1, .dims = { dim0 } };

  tps_tensor_init (tensor, &shape);
}

void
tps_tensor_init_2d (TpsTensor *tensor, TpsDType dtype, gint64 dim0, gint64 dim1)
{
  TpsShape shape = { .dtype = dtype, .n_dims = 2, .dims = { dim0, dim1 } };

  tps_tensor_init (tensor, &shape);
}

void
tps_tensor_init_take (TpsTensor *tensor, const TpsShape *shape, TpsBuffer *buffer, gsize offset)
{
  g_assert (offset <= tps_buffer_get_size (buffer)
            && tps_shape_n_bytes (shape) <= tps_buffer_get_size (buffer) - offset);
  tensor->shape = *shape;
  tensor->buffer = buffer;
  tensor->offset = offset;
}

void
tps_tensor_init_ref (TpsTensor *tensor, const TpsTensor *other)
{
  *tensor = *other;
  if (tensor->buffer != NULL)
    tps_buffer_ref (tensor->buffer);
}

void
tps_tensor_init_copy (TpsTensor *tensor, TpsTensorView view)
{
  gsize n_bytes = tps_shape_n_bytes (&view.shape);

  tps_tensor_init (tensor, &view.shape);
  if (n_bytes > 0)
    memcpy (tps_tensor_data (tensor), view.data, n_bytes);
}

void
tps_tensor_clear (TpsTensor *tensor)
{
  g_clear_pointer (&tensor->buffer, tps_buffer_unref);
  memset (tensor, 0, sizeof *tensor);
}

void
tps_tensor_init_borrowed (TpsTensor *tensor, TpsTensorView view)
{
  tps_tensor_init_take (tensor, &view.shape,
                        tps_buffer_new_foreign ((gpointer) (guintptr) view.data,
                                                tps_shape_n_bytes (&view.shape), NULL, NULL, NULL),
                        0);
}

void
tps_tensor_move (TpsTensor *to, TpsTensor *from)
{
  TpsTensor moved = *from;

  memset (from, 0, sizeof *from);
  tps_tensor_clear (to);
  *to = moved;
}

gboolean
tps_tensor_is_empty (const TpsTensor *tensor)
{
  return tensor->shape.dtype == 0;
}

gpointer
tps_tensor_data (const TpsTensor *tensor)
{
  return tensor->buffer == NULL ? NULL : tps_buffer_get_data (tensor->buffer) + tensor->offset;
}

TpsTensorView
tps_tensor_view (const TpsTensor *tensor)
{
  return (TpsTensorView) { .shape = tensor->shape, .data = tps_tensor_data (tensor) };
}

static const struct
{
  const gchar *name;
  gsize size;
  gboolean is_floating;
} dtypes[] = {
  [TPS_DTYPE_FLOAT32] = { "FLOAT32", 4, TRUE }, [TPS_DTYPE_FLOAT64] = { "FLOAT64", 8, TRUE },
  [TPS_DTYPE_FLOAT16] = { "FLOAT16", 2, TRUE }, [TPS_DTYPE_BFLOAT16] = { "BFLOAT16", 2, TRUE },
  [TPS_DTYPE_INT32] = { "INT32", 4, FALSE },    [TPS_DTYPE_INT64] = { "INT64", 8, FALSE },
};

gboolean
tps_dtype_is_valid (gint value)
{
  return value >= TPS_DTYPE_FLOAT32 && value <= TPS_DTYPE_INT64;
}

gsize
tps_dtype_size (TpsDType dtype)
{
  g_assert (tps_dtype_is_valid (dtype));
  return dtypes[dtype].size;
}

const gchar *
tps_dtype_name (TpsDType dtype)
{
  return tps_dtype_is_valid (dtype) ? dtypes[dtype].name : "UNKNOWN";
}

gboolean
tps_dtype_is_floating (TpsDType dtype)
{
  return tps_dtype_is_valid (dtype) && dtypes[dtype].is_floating;
}
