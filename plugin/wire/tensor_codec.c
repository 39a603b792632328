/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/tensor_codec.h"

#include <math.h>
#include <string.h>

#include "plugin/wire/wire_forms.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"

G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN); /* elements are not swapped here */

/* ---- reading -------------------------------------------------------------------------------- */

static gboolean
read_dims (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  TpsShape *shape = TPS_FIELD_VALUE (field, object);
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_I64, &n_elems, error))
    return FALSE;
  if (n_elems > TPS_TENSOR_MAX_DIMS)
    return tps_field_refuse (path, error, "has %u dimensions, at most %d are allowed", n_elems,
                             TPS_TENSOR_MAX_DIMS);
  for (guint i = 0; i < n_elems; i++)
    shape->dims[i] = tps_reader_i64 (in);
  shape->n_dims = n_elems;
  return TRUE;
}

static void
write_dims (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsShape *shape = TPS_FIELD_CONST_VALUE (field, object);

  tps_writer_list_begin (out, TPS_WIRE_I64, shape->n_dims);
  for (guint i = 0; i < shape->n_dims; i++)
    tps_writer_i64 (out, shape->dims[i]);
}

const TpsValueKind tps_kind_dims = { TPS_WIRE_LIST, read_dims, write_dims };

static gboolean
read_data (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  ((TpsTensorForm *) object)->data = tps_reader_binary (in);
  return TRUE;
}

gboolean
tps_read_shared_slice (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error)
{
  if (in->message->sharing == NULL)
    return tps_field_refuse (path, error,
                             "is set, but this message has no shared memory: none is open on its "
                             "connection, or it came in chunks");
  return tps_fields_read (tps_shared_slice_fields, in, path, object, NULL, error);
}

/* This kind cannot write, because elements are sent from their own memory. */
const TpsValueKind tps_kind_tensor_data = { TPS_WIRE_BINARY, read_data };

/* Places in tps_tensor_fields. */
enum
{
  TENSOR_DTYPE,
  TENSOR_SHAPE,
  TENSOR_DATA,
  TENSOR_SHARED,
};

static inline gboolean
has_field (guint64 seen, guint field)
{
  return (seen & ((guint64) 1 << field)) != 0;
}

static gboolean
refuse_data (const TpsFieldPath *path, const TpsShape *shape, const TpsBytesView *data,
             GError **error)
{
  TpsFieldPath at = { .parent = path, .name = "data" };
  g_autofree gchar *text = tps_shape_to_string (shape);

  if (data == NULL)
    return tps_field_refuse (&at, error, "is missing, %s needs %" G_GSIZE_FORMAT " bytes", text,
                             tps_shape_n_bytes (shape));
  return tps_field_refuse (&at, error, "has %" G_GSIZE_FORMAT " bytes, %s needs %" G_GSIZE_FORMAT,
                           data->n_bytes, text, tps_shape_n_bytes (shape));
}

static gboolean
init_shape (TpsShape *shape, const TpsTensorForm *received, const TpsFieldPath *path,
            GError **error)
{
  g_autofree gchar *where = NULL;

  if (tps_shape_init (shape, (gint) received->shape.dtype, received->shape.n_dims,
                      received->shape.dims, "", NULL))
    return TRUE;
  where = tps_field_path_to_string (path); /* only for an error, because this is a hot path */
  return tps_shape_init (shape, (gint) received->shape.dtype, received->shape.n_dims,
                         received->shape.dims, where, error);
}

/* Returns TRUE for integers (ids, offsets). They control memory accesses, so the peer must not be
 * able to change them after the check. */
static gboolean
steers_access (TpsDType dtype)
{
  return dtype == TPS_DTYPE_INT32 || dtype == TPS_DTYPE_INT64;
}

/* Copies a slice into memory that is charged like pending messages, because many tensors may name
 * the same slice. */
static TpsBuffer *
copy_shared (TpsReader *in, TpsBuffer *shared, const TpsFieldPath *path, GError **error)
{
  TpsSharing *sharing = in->message->sharing;
  TpsBufferPool *pool = sharing->ops->get_pool != NULL ? sharing->ops->get_pool (sharing) : NULL;
  gsize n_bytes = tps_buffer_get_size (shared);
  TpsBuffer *copy = tps_buffer_pool_get (pool != NULL ? pool : tps_buffer_pool_get_default (),
                                         n_bytes, NULL);
  g_autofree gchar *where = NULL;

  if (copy != NULL)
    {
      memcpy (tps_buffer_get_data (copy), tps_buffer_get_data (shared), n_bytes);
      return copy;
    }
  where = tps_field_path_to_string (path);
  return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                        "%s: no room for a copy of %" G_GSIZE_FORMAT " bytes", where, n_bytes);
}

/* Returns the elements from shared memory, in place or, if required, as a copy. NULL = the slice is
 * refused. If `may_be_on_device` is TRUE, the elements may lie in memory of a device. */
static TpsBuffer *
take_shared (TpsReader *in, const TpsFieldPath *path, const TpsTensorForm *received,
             const TpsShape *shape, gboolean may_be_on_device, GError **error)
{
  TpsFieldPath at = { .parent = path, .name = "shared" };
  TpsSharing *sharing = in->message->sharing;
  g_autoptr (TpsBuffer) buffer = NULL;
  g_autoptr (GError) why = NULL;

  if (received->shared.length < 0 || (gsize) received->shared.length != tps_shape_n_bytes (shape))
    {
      g_autofree gchar *text = tps_shape_to_string (shape);

      tps_field_refuse (&at, error, "has %" G_GINT64_FORMAT " bytes, %s needs %" G_GSIZE_FORMAT,
                        received->shared.length, text, tps_shape_n_bytes (shape));
      return NULL;
    }
  buffer = sharing->ops->resolve (sharing, &received->shared, &why);
  if (buffer == NULL)
    {
      tps_field_refuse (&at, error, "%s", why->message);
      return NULL;
    }
  if (tps_device_memory_of_buffer (buffer) != NULL
      && (!may_be_on_device || steers_access (shape->dtype)))
    {
      tps_field_refuse (&at, error,
                        "lies in memory of %s, where only dense floating-point gradients to be "
                        "averaged may be",
                        tps_device_memory_of_buffer (buffer)->name);
      return NULL;
    }
  if (steers_access (shape->dtype) || in->copies_shared)
    return copy_shared (in, buffer, &at, error);
  return g_steal_pointer (&buffer);
}

static TpsBuffer *
take_data (TpsReader *in, const TpsFieldPath *path, const TpsTensorForm *received,
           gboolean has_data, const TpsShape *shape, GError **error)
{
  const TpsBytesView *data = &received->data;

  if (data->n_bytes != tps_shape_n_bytes (shape))
    {
      refuse_data (path, shape, has_data ? data : NULL, error);
      return NULL;
    }
  if (data->buffer != NULL)
    return tps_buffer_ref (data->buffer);
  if (!tps_reader_charge (in, tps_buffer_get_copy_cost (data->n_bytes), error))
    return NULL;
  return tps_buffer_new_copy (data->data, data->n_bytes);
}

static gboolean
decode (TpsReader *in, const TpsFieldPath *path, gboolean may_be_on_device, TpsTensor *tensor,
        GError **error)
{
  TpsTensorForm received = { 0 };
  TpsBuffer *buffer;
  TpsShape shape;
  guint64 seen;

  if (!tps_fields_read (tps_tensor_fields, in, path, &received, &seen, error)
      || !init_shape (&shape, &received, path, error))
    return FALSE;
  if (has_field (seen, TENSOR_DATA) && has_field (seen, TENSOR_SHARED))
    return tps_field_refuse (path, error, "has both data and shared, expected one of them");
  if (has_field (seen, TENSOR_SHARED))
    buffer = take_shared (in, path, &received, &shape, may_be_on_device, error);
  else
    buffer = take_data (in, path, &received, has_field (seen, TENSOR_DATA), &shape, error);
  if (buffer == NULL)
    return FALSE;
  tps_tensor_clear (tensor);
  tps_tensor_init_take (tensor, &shape, buffer, 0);
  return TRUE;
}

gboolean
tps_read_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return decode (in, path, FALSE, tensor, error);
}

gboolean
tps_tensor_decode_as (TpsReader *in, const TpsFieldPath *path, TpsDType dtype, guint n_dims,
                      const gchar *expected, TpsTensor *tensor, GError **error)
{
  g_autofree gchar *text = NULL;

  if (!tps_read_tensor (in, path, tensor, error))
    return FALSE;
  if (tensor->shape.dtype == dtype && tensor->shape.n_dims == n_dims)
    return TRUE;
  text = tps_shape_to_string (&tensor->shape);
  return tps_field_refuse (path, error, "is %s, expected %s", text, expected);
}

static gboolean
read_device_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return decode (in, path, TRUE, tensor, error);
}

static gboolean
read_kept_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  TpsTensor *kept = tensor;
  TpsBuffer *copy;

  if (!tps_read_tensor (in, path, kept, error))
    return FALSE;
  if (!tps_buffer_is_shared (kept->buffer))
    return TRUE;
  copy = copy_shared (in, kept->buffer, path, error);
  if (copy == NULL)
    return FALSE;
  tps_buffer_unref (kept->buffer);
  kept->buffer = copy;
  return TRUE;
}

static gboolean
read_indices (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return tps_tensor_decode_as (in, path, TPS_DTYPE_INT64, 1, "INT64 [nnz]", tensor, error);
}

static void
encode_shape (TpsWriter *out, const TpsShape *shape)
{
  tps_field_write (&tps_tensor_fields[TENSOR_DTYPE], out, shape);
  tps_field_write (&tps_tensor_fields[TENSOR_SHAPE], out, shape);
}

static void
encode_slice (TpsWriter *out, const TpsSharedSlice *slice)
{
  tps_field_begin (&tps_tensor_fields[TENSOR_SHARED], out);
  tps_struct_write (&tps_shared_slice_struct, out, slice);
}

static void
encode_buffer (TpsWriter *out, const TpsTensor *tensor)
{
  gsize n_bytes = tps_shape_n_bytes (&tensor->shape);
  TpsSharedSlice slice;

  if (n_bytes > 0 && tps_writer_share_buffer (out, tensor->buffer, tensor->offset, n_bytes, &slice))
    {
      encode_slice (out, &slice);
      return;
    }
  tps_field_begin (&tps_tensor_fields[TENSOR_DATA], out);
  if (n_bytes > 0)
    tps_writer_binary_buffer (out, tensor->buffer, tensor->offset, n_bytes);
  else
    tps_writer_binary (out, NULL, 0);
}

/* Writes elements in memory of `device` into shared memory of that device. If this is not possible,
 * copies them to the host. */
static void
encode_device (TpsWriter *out, TpsDevice *device, const TpsTensor *tensor)
{
  g_auto (TpsTensor) here = { 0 };
  GError *error = NULL;
  TpsSharedSlice slice;

  if (tps_writer_share_device (out, device, tps_tensor_data (tensor),
                               tps_shape_n_bytes (&tensor->shape), &slice))
    encode_slice (out, &slice);
  else if (tps_device_memory_download (&here, tensor, &error))
    encode_buffer (out, &here);
  else
    tps_writer_fail (out, error);
}

void
tps_write_tensor (TpsWriter *out, gconstpointer object)
{
  const TpsTensor *tensor = object;
  TpsDevice *device = tps_device_memory_of_tensor (tensor);

  tps_writer_struct_begin (out);
  encode_shape (out, &tensor->shape);
  if (device != NULL)
    encode_device (out, device, tensor);
  else
    encode_buffer (out, tensor);
  tps_writer_struct_end (out);
}

void
tps_tensor_encode_borrowed (TpsWriter *out, TpsTensorView view)
{
  gsize n_bytes = tps_shape_n_bytes (&view.shape);
  TpsSharedSlice slice;

  tps_writer_struct_begin (out);
  encode_shape (out, &view.shape);
  if (tps_writer_share (out, view.data, n_bytes, &slice))
    encode_slice (out, &slice);
  else
    {
      tps_field_begin (&tps_tensor_fields[TENSOR_DATA], out);
      tps_writer_binary_borrowed (out, view.data, n_bytes);
    }
  tps_writer_struct_end (out);
}

const TpsStruct tps_kept_tensor_struct = { "Tensor", tps_tensor_fields, read_kept_tensor,
                                           tps_write_tensor };
const TpsStruct tps_device_tensor_struct = { "Tensor", tps_tensor_fields, read_device_tensor,
                                             tps_write_tensor };
const TpsStruct tps_indices_struct = { "Tensor", tps_tensor_fields, read_indices,
                                       tps_write_tensor };

void
tps_tensor_list_clear (TpsTensorList *list)
{
  for (guint i = 0; i < list->n_tensors; i++)
    tps_tensor_clear (&list->tensors[i]);
  g_clear_pointer (&list->tensors, g_free);
  list->n_tensors = 0;
}

/* ---- SparseTensor --------------------------------------------------------------------------- */

/* Checks the dimensions of the whole matrix, [rows, dim], against the shape of the values. */
static gboolean
check_sparse (const TpsFieldPath *path, const TpsSparseForm *sparse, GError **error)
{
  const TpsShape *values = &sparse->values.shape;
  const gint64 *dims = sparse->shape.dims;
  TpsFieldPath at = { .parent = path, .name = "shape" };
  g_autofree gchar *text = NULL;

  if (sparse->shape.n_dims != 2 || dims[0] < 0 || dims[1] < 0)
    return tps_field_refuse (&at, error, "is not of the form [rows, dim], both >= 0");
  if (values->n_dims == 2 && values->dims[1] == dims[1])
    return TRUE;
  text = tps_shape_to_string (values);
  return tps_field_refuse (path, error,
                           "has values %s, shape [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                           "] needs [nnz, %" G_GINT64_FORMAT "]",
                           text, dims[0], dims[1], dims[1]);
}

/* Sets the weight to 1. */
static gboolean
decode_sparse (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient, GError **error)
{
  TpsSparseForm sparse = { 0 };
  gboolean ok = tps_fields_read (tps_sparse_tensor_fields, in, path, &sparse, NULL, error)
                && check_sparse (path, &sparse, error);

  if (ok)
    {
      tps_tensor_move (&gradient->indices, &sparse.indices);
      tps_tensor_move (&gradient->values, &sparse.values);
      gradient->rows = sparse.shape.dims[0];
      gradient->kind = TPS_GRADIENT_SPARSE;
      gradient->weight = 1;
    }
  tps_tensor_clear (&sparse.indices);
  tps_tensor_clear (&sparse.values);
  return ok;
}

void
tps_write_sparse_tensor (TpsWriter *out, gconstpointer object)
{
  const TpsGradient *gradient = object;
  TpsSparseForm sparse = {
    .indices = gradient->indices, /* borrowed */
    .values = gradient->values,
    .shape = { .n_dims = 2, .dims = { gradient->rows, gradient->values.shape.dims[1] } },
  };

  tps_writer_struct_begin (out);
  tps_fields_write (tps_sparse_tensor_fields, out, &sparse);
  tps_writer_struct_end (out);
}

/* Keeps the weight, because it is a field of the enclosing Gradient. */
gboolean
tps_read_sparse_tensor (TpsReader *in, const TpsFieldPath *path, gpointer data, GError **error)
{
  TpsGradient *gradient = data;
  gdouble weight = gradient->weight;
  gboolean ok = decode_sparse (in, path, gradient, error);

  gradient->weight = weight;
  return ok;
}

static gboolean
read_row_gradient (TpsReader *in, const TpsFieldPath *path, gpointer data, GError **error)
{
  TpsGradient *gradient = data;
  const TpsShape *indices = &gradient->indices.shape;
  TpsFieldPath at = { .parent = path, .name = "indices" };
  g_autofree gchar *text = NULL;

  if (!decode_sparse (in, path, gradient, error))
    return FALSE;
  if (indices->dtype == TPS_DTYPE_INT64 && indices->n_dims == 1)
    return TRUE;
  text = tps_shape_to_string (indices);
  return tps_field_refuse (&at, error, "is %s, expected INT64 [nnz]", text);
}

const TpsStruct tps_row_gradient_struct = { "SparseTensor", tps_sparse_tensor_fields,
                                            read_row_gradient, tps_write_sparse_tensor };

/* ---- Gradient ------------------------------------------------------------------------------- */

/* Places in tps_gradient_fields. */
enum
{
  GRADIENT_DENSE,
  GRADIENT_SPARSE,
  GRADIENT_WEIGHT,
};

gboolean
tps_read_gradient (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error)
{
  TpsGradient *gradient = object;
  guint64 seen;
  gboolean is_dense, is_sparse;

  gradient->weight = 1;
  if (!tps_fields_read (tps_gradient_fields, in, path, gradient, &seen, error))
    return FALSE;
  is_dense = (seen & (1 << GRADIENT_DENSE)) != 0;
  is_sparse = (seen & (1 << GRADIENT_SPARSE)) != 0;
  if (is_dense && is_sparse)
    return tps_field_refuse (path, error, "is both dense and sparse, expected one of them");
  if (is_dense)
    gradient->kind = TPS_GRADIENT_DENSE;
  else
    gradient->kind = is_sparse ? TPS_GRADIENT_SPARSE : TPS_GRADIENT_NONE;
  return TRUE;
}

void
tps_write_gradient (TpsWriter *out, gconstpointer object)
{
  const TpsGradient *gradient = object;

  tps_writer_struct_begin (out);
  if (gradient->kind == TPS_GRADIENT_DENSE)
    tps_field_write (&tps_gradient_fields[GRADIENT_DENSE], out, gradient);
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    tps_field_write (&tps_gradient_fields[GRADIENT_SPARSE], out, gradient);
  tps_field_write (&tps_gradient_fields[GRADIENT_WEIGHT], out, gradient);
  tps_writer_struct_end (out);
}
