/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The descriptors of SparseTensor and Gradient. */

#include "plugin/wire/wire_gradient.h"

#include "plugin/wire/wire_tensor.h"

/* ---- SparseTensor --------------------------------------------------------------------------- */

/* The form of a SparseTensor on the wire. In C, it is a TpsGradient. */
typedef struct
{
  TpsTensor indices;
  TpsTensor values;
  TpsShape shape; /* n_dims and dims only */
} WireSparse;

static const TpsField sparse_fields[] = {
  { "indices", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct,
    G_STRUCT_OFFSET (WireSparse, indices) },
  { "values", 2, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct,
    G_STRUCT_OFFSET (WireSparse, values) },
  { "shape", 3, TPS_FIELD_REQUIRED, &tps_kind_dims, NULL, G_STRUCT_OFFSET (WireSparse, shape) },
  { NULL },
};

gboolean
tps_sparse_check (const TpsFieldPath *path, const TpsShape *values, const gint64 *dims,
                  guint n_dims, GError **error)
{
  TpsFieldPath at = { .parent = path, .name = "shape" };
  g_autofree gchar *text = NULL;

  if (n_dims != 2 || dims[0] < 0 || dims[1] < 0)
    return tps_field_refuse (&at, error, "is not of the form [rows, dim], both >= 0");
  if (values->n_dims == 2 && values->dims[1] == dims[1])
    return TRUE;
  text = tps_shape_to_string (values);
  return tps_field_refuse (path, error,
                           "has values %s, shape [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                           "] needs [nnz, %" G_GINT64_FORMAT "]",
                           text, dims[0], dims[1], dims[1]);
}

gboolean
tps_sparse_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient,
                            GError **error)
{
  WireSparse sparse = { 0 };
  gboolean ok = tps_fields_read (sparse_fields, in, path, &sparse, NULL, error)
                && tps_sparse_check (path, &sparse.values.shape, sparse.shape.dims,
                                     sparse.shape.n_dims, error);

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
tps_sparse_gradient_encode (TpsWriter *out, const TpsGradient *gradient)
{
  WireSparse sparse = {
    .indices = gradient->indices, /* borrowed */
    .values = gradient->values,
    .shape = { .n_dims = 2, .dims = { gradient->rows, gradient->values.shape.dims[1] } },
  };

  tps_writer_struct_begin (out);
  tps_fields_write (sparse_fields, out, &sparse);
  tps_writer_struct_end (out);
}

/* Keeps the weight, because it is a field of the enclosing Gradient. */
static gboolean
read_sparse (TpsReader *in, const TpsFieldPath *path, gpointer data, GError **error)
{
  TpsGradient *gradient = data;
  gdouble weight = gradient->weight;
  gboolean ok = tps_sparse_gradient_decode (in, path, gradient, error);

  gradient->weight = weight;
  return ok;
}

static void
write_sparse (TpsWriter *out, gconstpointer gradient)
{
  tps_sparse_gradient_encode (out, gradient);
}

static gboolean
read_row_gradient (TpsReader *in, const TpsFieldPath *path, gpointer data, GError **error)
{
  TpsGradient *gradient = data;
  const TpsShape *indices = &gradient->indices.shape;
  TpsFieldPath at = { .parent = path, .name = "indices" };
  g_autofree gchar *text = NULL;

  if (!tps_sparse_gradient_decode (in, path, gradient, error))
    return FALSE;
  if (indices->dtype == TPS_DTYPE_INT64 && indices->n_dims == 1)
    return TRUE;
  text = tps_shape_to_string (indices);
  return tps_field_refuse (&at, error, "is %s, expected INT64 [nnz]", text);
}

static const TpsStruct sparse_struct = { "SparseTensor", sparse_fields, read_sparse, write_sparse };

const TpsStruct tps_row_gradient_struct = { "SparseTensor", sparse_fields, read_row_gradient,
                                            write_sparse };

/* ---- Gradient ------------------------------------------------------------------------------- */

enum
{
  GRADIENT_DENSE,
  GRADIENT_SPARSE,
  GRADIENT_WEIGHT,
};

/* The field `sparse` has no offset, because it sets several members of the gradient. */
static const TpsField gradient_fields[] = {
  [GRADIENT_DENSE] = { "dense", 1, TPS_FIELD_OPTIONAL, &tps_kind_struct, &tps_device_tensor_struct,
                       G_STRUCT_OFFSET (TpsGradient, dense) },
  [GRADIENT_SPARSE] = { "sparse", 2, TPS_FIELD_OPTIONAL, &tps_kind_struct, &sparse_struct },
  [GRADIENT_WEIGHT] = { "weight", 3, TPS_FIELD_DEFAULT, &tps_kind_double, NULL,
                        G_STRUCT_OFFSET (TpsGradient, weight) },
  { NULL },
};

gboolean
tps_gradient_check_form (const TpsFieldPath *path, gboolean is_dense, gboolean is_sparse,
                         GError **error)
{
  if (is_dense && is_sparse)
    return tps_field_refuse (path, error, "is both dense and sparse, expected one of them");
  return TRUE;
}

gboolean
tps_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient, GError **error)
{
  guint64 seen;
  gboolean is_dense, is_sparse;

  gradient->weight = 1;
  if (!tps_fields_read (gradient_fields, in, path, gradient, &seen, error))
    return FALSE;
  is_dense = (seen & (1 << GRADIENT_DENSE)) != 0;
  is_sparse = (seen & (1 << GRADIENT_SPARSE)) != 0;
  if (!tps_gradient_check_form (path, is_dense, is_sparse, error))
    return FALSE;
  if (is_dense)
    gradient->kind = TPS_GRADIENT_DENSE;
  else
    gradient->kind = is_sparse ? TPS_GRADIENT_SPARSE : TPS_GRADIENT_NONE;
  return TRUE;
}

void
tps_gradient_encode (TpsWriter *out, const TpsGradient *gradient)
{
  tps_writer_struct_begin (out);
  if (gradient->kind == TPS_GRADIENT_DENSE)
    tps_field_write (&gradient_fields[GRADIENT_DENSE], out, gradient);
  if (gradient->kind == TPS_GRADIENT_SPARSE)
    tps_field_write (&gradient_fields[GRADIENT_SPARSE], out, gradient);
  tps_field_write (&gradient_fields[GRADIENT_WEIGHT], out, gradient);
  tps_writer_struct_end (out);
}

static gboolean
read_gradient (TpsReader *in, const TpsFieldPath *path, gpointer gradient, GError **error)
{
  return tps_gradient_decode (in, path, gradient, error);
}

static void
write_gradient (TpsWriter *out, gconstpointer gradient)
{
  tps_gradient_encode (out, gradient);
}

const TpsStruct tps_gradient_struct = { "Gradient", gradient_fields, read_gradient,
                                        write_gradient };
