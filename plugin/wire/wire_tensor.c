/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_tensor.h"

#include <math.h>
#include <string.h>

#include "runtime/device/device_memory.h"
#include "runtime/base/error.h"

G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN); /* elements are not swapped here */

/* ---- Tensor --------------------------------------------------------------------------------- */

/* What is received of a Tensor before it is known to be one. */
typedef struct
{
  gint32 dtype;
  guint n_dims;
  gint64 dims[TPS_TENSOR_MAX_DIMS];
  TpsBytesView data;
  TpsSharedSlice shared;
} ReceivedTensor;

static gboolean
read_dims (TpsReader *in, const TpsFieldPath *path, guint *n_dims, gint64 *dims, GError **error)
{
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_I64, &n_elems, error))
    return FALSE;
  if (n_elems > TPS_TENSOR_MAX_DIMS)
    return tps_field_refuse (path, error, "has %u dimensions, at most %d are allowed", n_elems,
                             TPS_TENSOR_MAX_DIMS);
  for (guint i = 0; i < n_elems; i++)
    dims[i] = tps_reader_i64 (in);
  *n_dims = n_elems;
  return TRUE;
}

static gboolean
read_shape (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  ReceivedTensor *received = target;

  return read_dims (in, path, &received->n_dims, received->dims, error);
}

static gboolean
read_data (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  ReceivedTensor *received = target;

  received->data = tps_reader_binary (in);
  return TRUE;
}

static const TpsFieldSpec slice_fields[] = {
  { "segment", 1, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsSharedSlice, segment) },
  { "offset", 2, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsSharedSlice, offset) },
  { "length", 3, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsSharedSlice, length) },
  { NULL },
};

static gboolean
read_shared (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  ReceivedTensor *received = target;

  if (in->message->sharing == NULL)
    return tps_field_refuse (path, error,
                             "is set, but this message has no shared memory: none is open on its "
                             "connection, or it came in chunks");
  return tps_fields_read (in, path, slice_fields, &received->shared, NULL, error);
}

static const TpsFieldSpec tensor_fields[] = {
  { "dtype", 1, TPS_WIRE_I32, .required = TRUE, .offset = G_STRUCT_OFFSET (ReceivedTensor, dtype) },
  { "shape", 2, TPS_WIRE_LIST, .required = TRUE, .read = read_shape },
  { "data", 3, TPS_WIRE_BINARY, .read = read_data },
  { "shared", 4, TPS_WIRE_STRUCT, .read = read_shared },
  { NULL },
};

enum
{
  TENSOR_HAS_DATA = 1 << 2, /* bits of their rows */
  TENSOR_HAS_SHARED = 1 << 3,
};

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
init_shape (TpsShape *shape, const ReceivedTensor *received, const TpsFieldPath *path,
            GError **error)
{
  g_autofree gchar *where = NULL;

  if (tps_shape_init (shape, received->dtype, received->n_dims, received->dims, "", NULL))
    return TRUE;
  where = tps_field_path_to_string (path); /* made for an error only: this is a hot path */
  return tps_shape_init (shape, received->dtype, received->n_dims, received->dims, where, error);
}

/* Integers steer access (ids, offsets): the peer must not change them after they have been checked. */
static gboolean
steers_access (TpsDType dtype)
{
  return dtype == TPS_DTYPE_INT32 || dtype == TPS_DTYPE_INT64;
}

/* Counted with what waits in the server: a slice may be named by many tensors. */
static TpsBuffer *
copy_shared (TpsReader *in, TpsBuffer *shared, const TpsFieldPath *path, GError **error)
{
  TpsSharing *sharing = in->message->sharing;
  TpsBufferPool *pool = sharing->ops->get_pool != NULL ? sharing->ops->get_pool (sharing) : NULL;
  gsize n_bytes = tps_buffer_get_size (shared);
  TpsBuffer *copy = tps_buffer_pool_try_get (pool != NULL ? pool : tps_buffer_pool_get_default (),
                                             n_bytes);
  g_autofree gchar *where = NULL;

  if (copy != NULL)
    {
      memcpy (tps_buffer_get_data (copy), tps_buffer_get_data (shared), n_bytes);
      return copy;
    }
  where = tps_field_path_to_string (path);
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "%s: no room for a copy of %" G_GSIZE_FORMAT " bytes", where, n_bytes);
  return NULL;
}

/* The elements from shared memory: in place, or copied where that has to be. NULL: refused. `may_be_on_device`: they may lie in a
 * device's memory. */
static TpsBuffer *
take_shared (TpsReader *in, const TpsFieldPath *path, const ReceivedTensor *received,
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
  if (steers_access (shape->dtype))
    return copy_shared (in, buffer, &at, error);
  return g_steal_pointer (&buffer);
}

/* A copy of elements that stand in the head. */
static TpsBuffer *
copy_small (TpsReader *in, const TpsBytesView *data, GError **error)
{
  if (!tps_reader_charge (in, tps_buffer_get_copy_cost (data->n_bytes), error))
    return NULL;
  return tps_buffer_new_copy (data->data, data->n_bytes);
}

static TpsBuffer *
take_data (TpsReader *in, const TpsFieldPath *path, const ReceivedTensor *received,
           gboolean has_data, const TpsShape *shape, GError **error)
{
  const TpsBytesView *data = &received->data;

  if (data->n_bytes != tps_shape_n_bytes (shape))
    {
      refuse_data (path, shape, has_data ? data : NULL, error);
      return NULL;
    }
  return data->buffer != NULL ? tps_buffer_ref (data->buffer) : copy_small (in, data, error);
}

static gboolean
decode (TpsReader *in, const TpsFieldPath *path, gboolean may_be_on_device, TpsTensor *tensor,
        GError **error)
{
  ReceivedTensor received = { 0 };
  TpsBuffer *buffer;
  TpsShape shape;
  guint64 seen;

  if (!tps_fields_read (in, path, tensor_fields, &received, &seen, error)
      || !init_shape (&shape, &received, path, error))
    return FALSE;
  if ((seen & TENSOR_HAS_DATA) && (seen & TENSOR_HAS_SHARED))
    return tps_field_refuse (path, error, "has both data and shared, expected one of them");
  if (seen & TENSOR_HAS_SHARED)
    buffer = take_shared (in, path, &received, &shape, may_be_on_device, error);
  else
    buffer = take_data (in, path, &received, (seen & TENSOR_HAS_DATA) != 0, &shape, error);
  if (buffer == NULL)
    return FALSE;
  tps_tensor_clear (tensor);
  tps_tensor_init_take (tensor, &shape, buffer, 0);
  return TRUE;
}

gboolean
tps_tensor_decode (TpsReader *in, const TpsFieldPath *path, TpsTensor *tensor, GError **error)
{
  return decode (in, path, FALSE, tensor, error);
}

gboolean
tps_field_read_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return tps_tensor_decode (in, path, tensor, error);
}

gboolean
tps_field_read_kept_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor,
                            GError **error)
{
  TpsTensor *kept = tensor;
  TpsBuffer *copy;

  if (!tps_tensor_decode (in, path, kept, error))
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

static void
encode_dims (TpsWriter *out, gint16 id, guint n_dims, const gint64 *dims)
{
  tps_writer_field (out, id, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_I64, n_dims);
  for (guint i = 0; i < n_dims; i++)
    tps_writer_i64 (out, dims[i]);
}

static void
encode_shape (TpsWriter *out, const TpsShape *shape)
{
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, shape->dtype);
  encode_dims (out, 2, shape->n_dims, shape->dims);
}

/* Field 4 in place of the elements. */
static void
encode_slice (TpsWriter *out, const TpsSharedSlice *slice)
{
  tps_writer_field (out, 4, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_i64 (out, 1, slice->segment);
  tps_field_write_i64 (out, 2, slice->offset);
  tps_field_write_i64 (out, 3, slice->length);
  tps_writer_struct_end (out);
}

/* The same, where they could be put into shared memory. */
static gboolean
encode_shared (TpsWriter *out, gconstpointer data, gsize n_bytes)
{
  TpsSharedSlice slice;

  if (!tps_writer_share (out, data, n_bytes, &slice))
    return FALSE;
  encode_slice (out, &slice);
  return TRUE;
}

static void
encode_buffer (TpsWriter *out, const TpsTensor *tensor)
{
  gsize n_bytes = tps_shape_n_bytes (&tensor->shape);

  if (n_bytes > 0
      && encode_shared (out, tps_buffer_get_data (tensor->buffer) + tensor->offset, n_bytes))
    return;
  tps_writer_field (out, 3, TPS_WIRE_BINARY);
  if (n_bytes > 0)
    tps_writer_binary_buffer (out, tensor->buffer, tensor->offset, n_bytes);
  else
    tps_writer_binary (out, NULL, 0);
}

/* Elements in memory of `device`: into memory of it that the peer sees, else by way of the host. */
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
tps_tensor_encode (TpsWriter *out, const TpsTensor *tensor)
{
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

  tps_writer_struct_begin (out);
  encode_shape (out, &view.shape);
  if (!encode_shared (out, view.data, n_bytes))
    {
      tps_writer_field (out, 3, TPS_WIRE_BINARY);
      tps_writer_binary_borrowed (out, view.data, n_bytes);
    }
  tps_writer_struct_end (out);
}

/* ---- Gradient, SparseTensor ----------------------------------------------------------------- */

typedef struct
{
  TpsTensor indices;
  TpsTensor values;
  guint n_dims;
  gint64 dims[TPS_TENSOR_MAX_DIMS];
} ReceivedSparse;

static gboolean
read_sparse_shape (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  ReceivedSparse *received = target;

  if (!read_dims (in, path, &received->n_dims, received->dims, error))
    return FALSE;
  if (received->n_dims != 2 || received->dims[0] < 0 || received->dims[1] < 0)
    return tps_field_refuse (path, error, "is not of the form [rows, dim], both >= 0");
  return TRUE;
}

static const TpsFieldSpec sparse_fields[] = {
  { "indices", 1, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (ReceivedSparse, indices), .read = tps_field_read_tensor },
  { "values", 2, TPS_WIRE_STRUCT, .required = TRUE,
    .offset = G_STRUCT_OFFSET (ReceivedSparse, values), .read = tps_field_read_tensor },
  { "shape", 3, TPS_WIRE_LIST, .required = TRUE, .read = read_sparse_shape },
  { NULL },
};

static gboolean
check_sparse (const TpsFieldPath *path, const ReceivedSparse *received, GError **error)
{
  const TpsShape *values = &received->values.shape;
  g_autofree gchar *text = NULL;

  if (values->n_dims == 2 && values->dims[1] == received->dims[1])
    return TRUE;
  text = tps_shape_to_string (values);
  return tps_field_refuse (path, error,
                           "has values %s, shape [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                           "] needs [nnz, %" G_GINT64_FORMAT "]",
                           text, received->dims[0], received->dims[1], received->dims[1]);
}

gboolean
tps_sparse_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient,
                            GError **error)
{
  ReceivedSparse received = { 0 };
  gboolean ok = tps_fields_read (in, path, sparse_fields, &received, NULL, error)
                && check_sparse (path, &received, error);

  if (ok)
    {
      tps_tensor_move (&gradient->indices, &received.indices);
      tps_tensor_move (&gradient->values, &received.values);
      gradient->rows = received.dims[0];
      gradient->kind = TPS_GRADIENT_SPARSE;
      gradient->weight = 1;
    }
  tps_tensor_clear (&received.indices);
  tps_tensor_clear (&received.values);
  return ok;
}

/* Leaves kind and weight to what else stands in the gradient. */
static gboolean
read_sparse (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsGradient *gradient = target;
  gdouble weight = gradient->weight;
  gboolean ok = tps_sparse_gradient_decode (in, path, gradient, error);

  gradient->weight = weight;
  return ok;
}

static gboolean
read_dense (TpsReader *in, const TpsFieldPath *path, gpointer tensor, GError **error)
{
  return decode (in, path, TRUE, tensor, error);
}

static const TpsFieldSpec gradient_fields[] = {
  { "dense", 1, TPS_WIRE_STRUCT, .offset = G_STRUCT_OFFSET (TpsGradient, dense),
    .read = read_dense },
  { "sparse", 2, TPS_WIRE_STRUCT, .read = read_sparse },
  { "weight", 3, TPS_WIRE_DOUBLE, .offset = G_STRUCT_OFFSET (TpsGradient, weight) },
  { NULL },
};

enum
{
  GRADIENT_HAS_DENSE = 1 << 0, /* bits of their rows */
  GRADIENT_HAS_SPARSE = 1 << 1,
};

gboolean
tps_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient, GError **error)
{
  guint64 seen;

  gradient->weight = 1;
  if (!tps_fields_read (in, path, gradient_fields, gradient, &seen, error))
    return FALSE;
  if ((seen & GRADIENT_HAS_DENSE) && (seen & GRADIENT_HAS_SPARSE))
    return tps_field_refuse (path, error, "is both dense and sparse, expected one of them");
  if (seen & GRADIENT_HAS_DENSE)
    gradient->kind = TPS_GRADIENT_DENSE;
  else
    gradient->kind = (seen & GRADIENT_HAS_SPARSE) ? TPS_GRADIENT_SPARSE : TPS_GRADIENT_NONE;
  return TRUE;
}

void
tps_sparse_gradient_encode (TpsWriter *out, const TpsGradient *gradient)
{
  gint64 dims[2] = { gradient->rows, gradient->values.shape.dims[1] };

  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_STRUCT);
  tps_tensor_encode (out, &gradient->indices);
  tps_writer_field (out, 2, TPS_WIRE_STRUCT);
  tps_tensor_encode (out, &gradient->values);
  encode_dims (out, 3, 2, dims);
  tps_writer_struct_end (out);
}

void
tps_gradient_encode (TpsWriter *out, const TpsGradient *gradient)
{
  tps_writer_struct_begin (out);
  if (gradient->kind == TPS_GRADIENT_DENSE)
    {
      tps_writer_field (out, 1, TPS_WIRE_STRUCT);
      tps_tensor_encode (out, &gradient->dense);
    }
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    {
      tps_writer_field (out, 2, TPS_WIRE_STRUCT);
      tps_sparse_gradient_encode (out, gradient);
    }
  tps_writer_field (out, 3, TPS_WIRE_DOUBLE);
  tps_writer_double (out, gradient->weight);
  tps_writer_struct_end (out);
}

/* ---- PushId --------------------------------------------------------------------------------- */

static const TpsFieldSpec push_fields[] = {
  { "client", 1, TPS_WIRE_BINARY, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsPushId, client),
    .read = tps_field_read_name },
  { "sequence", 2, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsPushId, sequence) },
  { NULL },
};

gboolean
tps_push_id_decode (TpsReader *in, const TpsFieldPath *path, TpsPushId *push, GError **error)
{
  return tps_fields_read (in, path, push_fields, push, NULL, error);
}

void
tps_push_id_encode (TpsWriter *out, const TpsPushId *push)
{
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_string (out, push->client);
  tps_writer_field (out, 2, TPS_WIRE_I64);
  tps_writer_i64 (out, push->sequence);
  tps_writer_struct_end (out);
}

void
tps_push_id_clear (TpsPushId *push)
{
  g_clear_pointer (&push->client, g_free);
  push->sequence = 0;
}

/* ---- Optimizer ------------------------------------------------------------------------------ */

static gboolean
read_kind (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  gint32 kind = tps_reader_i32 (in);

  if (kind < TPS_OPTIMIZER_SGD || kind > TPS_OPTIMIZER_FTRL)
    return tps_field_refuse (path, error, "is %d, which is no OptimizerKind", kind);
  *(TpsOptimizerKind *) target = (TpsOptimizerKind) kind;
  return TRUE;
}

#define OPTIMIZER_NUMBER(number, field)                                                \
  {                                                                                    \
    .name = #field, .id = number, .type = TPS_WIRE_DOUBLE, .required = number == 2,    \
    .offset = G_STRUCT_OFFSET (TpsOptimizerSpec, field), .read = tps_field_read_finite \
  }

static const TpsFieldSpec optimizer_fields[] = {
  { "kind", 1, TPS_WIRE_I32, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsOptimizerSpec, kind),
    .read = read_kind },
  OPTIMIZER_NUMBER (2, learning_rate),
  OPTIMIZER_NUMBER (3, momentum),
  OPTIMIZER_NUMBER (4, weight_decay),
  OPTIMIZER_NUMBER (5, epsilon),
  OPTIMIZER_NUMBER (6, beta1),
  OPTIMIZER_NUMBER (7, beta2),
  OPTIMIZER_NUMBER (8, l1),
  OPTIMIZER_NUMBER (9, l2),
  OPTIMIZER_NUMBER (10, beta),
  { NULL },
};

static gdouble *
optimizer_number (TpsOptimizerSpec *spec, const TpsFieldSpec *field)
{
  return (gdouble *) (gpointer) ((guint8 *) spec + field->offset);
}

gboolean
tps_optimizer_spec_decode (TpsReader *in, const TpsFieldPath *path, TpsOptimizerSpec *spec,
                           GError **error)
{
  for (const TpsFieldSpec *field = &optimizer_fields[1]; field->name != NULL; field++)
    *optimizer_number (spec, field) = NAN;
  return tps_fields_read (in, path, optimizer_fields, spec, NULL, error);
}

void
tps_optimizer_spec_encode (TpsWriter *out, const TpsOptimizerSpec *spec)
{
  TpsOptimizerSpec copy = *spec;

  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_I32);
  tps_writer_i32 (out, spec->kind);
  for (const TpsFieldSpec *field = &optimizer_fields[1]; field->name != NULL; field++)
    {
      gdouble value = *optimizer_number (&copy, field);

      if (isnan (value))
        continue;
      tps_writer_field (out, field->id, TPS_WIRE_DOUBLE);
      tps_writer_double (out, value);
    }
  tps_writer_struct_end (out);
}
