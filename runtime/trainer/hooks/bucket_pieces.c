/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/hooks/bucket_pieces.h"

#include <string.h>

#include "runtime/base/error.h"

/* -- cutting -- */

/* Initialises `part` as a reference to [first, first + n) of the first dimension of `whole`. */
static void
init_part (TpsTensor *part, const TpsTensor *whole, gint64 first, gint64 n)
{
  TpsShape row = whole->shape;

  row.dims[0] = first;
  tps_tensor_init_ref (part, whole);
  part->shape.dims[0] = n;
  part->offset += tps_shape_n_bytes (&row);
}

static void
cut_dense (const TpsGradient *contribution, const TpsRoute *route, TpsGradient *slices)
{
  for (guint i = 0; i < route->n_pieces; i++)
    {
      slices[i] = (TpsGradient) { .kind = TPS_GRADIENT_DENSE, .weight = contribution->weight };
      init_part (&slices[i].dense, &contribution->dense, route->pieces[i].first_unit,
                 route->pieces[i].n_units);
    }
}

static gboolean
cut_rows (const TpsGradient *contribution, const TpsRoute *route, TpsGradient *slices,
          GError **error)
{
  const gint64 *ids = tps_tensor_data (&contribution->indices);
  gint64 n_ids = contribution->indices.shape.dims[0];
  gint64 next = 0;

  for (guint i = 0; i < route->n_pieces; i++)
    {
      const TpsPiece *piece = &route->pieces[i];
      gint64 first = next;

      while (next < n_ids && ids[next] >= piece->first_unit
             && ids[next] < piece->first_unit + piece->n_units)
        next++;
      slices[i] = (TpsGradient) { .kind = TPS_GRADIENT_SPARSE,
                                  .weight = contribution->weight,
                                  .rows = contribution->rows };
      init_part (&slices[i].indices, &contribution->indices, first, next - first);
      init_part (&slices[i].values, &contribution->values, first, next - first);
    }
  if (next == n_ids)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INTERNAL,
                   "row id %" G_GINT64_FORMAT " at position %" G_GINT64_FORMAT
                   " is not in ascending order",
                   ids[next], next);
}

gboolean
tps_bucket_pieces_cut (const TpsGradient *contribution, const TpsRoute *route, TpsGradient *slices,
                       GError **error)
{
  for (guint i = 0; i < route->n_pieces; i++)
    slices[i] = (TpsGradient) { TPS_GRADIENT_NONE };
  if (contribution->kind == TPS_GRADIENT_SPARSE)
    return cut_rows (contribution, route, slices, error);
  if (contribution->kind == TPS_GRADIENT_DENSE)
    cut_dense (contribution, route, slices);
  return TRUE;
}

/* -- joining -- */

void
tps_bucket_pieces_init (TpsBucketPieces *self, const TpsBucketCall *call, const TpsRoute *route)
{
  *self = (TpsBucketPieces) { .call = call, .route = route };
  self->averages = g_new0 (TpsGradient, route->n_pieces);
  if (call->travels_as == TPS_GRADIENT_DENSE)
    tps_tensor_init_1d (&self->dense, call->dtype, (gint64) call->n_elems);
}

void
tps_bucket_pieces_clear (TpsBucketPieces *self)
{
  for (guint i = 0; i < self->route->n_pieces; i++)
    tps_gradient_clear (&self->averages[i]);
  g_free (self->averages);
  tps_tensor_clear (&self->dense);
}

static gboolean
has_rows_outside (const TpsPiece *piece, const TpsGradient *average)
{
  const gint64 *ids = tps_tensor_data (&average->indices);
  gint64 n_ids = average->indices.shape.dims[0];

  for (gint64 i = 0; i < n_ids; i++)
    if (ids[i] < piece->first_unit || ids[i] >= piece->first_unit + piece->n_units)
      return TRUE;
  return FALSE;
}

static gboolean
fits (const TpsBucketCall *call, const TpsPiece *piece, const TpsGradient *average)
{
  if (average->kind == TPS_GRADIENT_NONE)
    return TRUE;
  if (average->kind != call->travels_as)
    return FALSE;
  if (average->kind == TPS_GRADIENT_DENSE)
    return average->dense.shape.dtype == call->dtype
           && tps_shape_n_elems (&average->dense.shape) == piece->n_units;
  return tps_gradient_check (average, NULL) && average->rows == call->rows
         && average->values.shape.dtype == call->dtype && average->values.shape.dims[1] == call->dim
         && !has_rows_outside (piece, average);
}

static void
copy_to (guint8 *to, const TpsTensor *from)
{
  gsize n_bytes = tps_shape_n_bytes (&from->shape);

  if (n_bytes > 0)
    memcpy (to, tps_tensor_data (from), n_bytes);
}

gboolean
tps_bucket_pieces_add (TpsBucketPieces *self, guint index, TpsGradient *average, GError **error)
{
  const TpsPiece *piece = &self->route->pieces[index];
  g_autofree gchar *got = NULL;

  if (!fits (self->call, piece, average))
    {
      got = tps_gradient_to_string (average);
      return tps_fail (
          error, TPS_ERROR_INTERNAL,
          "bucket %u: the average of round %d is %s, expected %s %s at [%" G_GINT64_FORMAT
          ", %" G_GINT64_FORMAT ")",
          self->call->index, piece->param_loc, got, tps_dtype_name (self->call->dtype),
          self->call->travels_as == TPS_GRADIENT_DENSE ? "elements" : "rows", piece->first_unit,
          piece->first_unit + piece->n_units);
    }
  if (average->kind == TPS_GRADIENT_DENSE)
    {
      copy_to ((guint8 *) tps_tensor_data (&self->dense)
                   + (gsize) piece->first_unit * tps_dtype_size (self->call->dtype),
               &average->dense);
      tps_tensor_clear (&average->dense);
    }
  tps_gradient_move (&self->averages[index], average);
  return TRUE;
}

/* Concatenates the rows of all pieces. Their ids ascend, because the ids ascend within each piece
 * and the pieces are in the order of their rows. */
static void
join_rows (TpsBucketPieces *self, TpsGradient *average)
{
  gint64 n_rows = 0;
  guint8 *ids, *values;

  for (guint i = 0; i < self->route->n_pieces; i++)
    n_rows += self->averages[i].indices.shape.dims[0];
  tps_tensor_init_1d (&average->indices, TPS_DTYPE_INT64, n_rows);
  tps_tensor_init_2d (&average->values, self->call->dtype, n_rows, self->call->dim);
  average->rows = self->call->rows;
  ids = tps_tensor_data (&average->indices);
  values = tps_tensor_data (&average->values);
  for (guint i = 0; i < self->route->n_pieces; i++)
    {
      const TpsGradient *piece = &self->averages[i];

      copy_to (ids, &piece->indices);
      copy_to (values, &piece->values);
      ids += tps_shape_n_bytes (&piece->indices.shape);
      values += tps_shape_n_bytes (&piece->values.shape);
    }
}

gboolean
tps_bucket_pieces_join (TpsBucketPieces *self, TpsGradient *average, GError **error)
{
  TpsGradientKind kind = self->averages[0].kind;

  for (guint i = 1; i < self->route->n_pieces; i++)
    if (self->averages[i].kind != kind)
      return tps_fail (error, TPS_ERROR_INTERNAL, "bucket %u: some of its rounds have no average",
                       self->call->index);
  *average = (TpsGradient) { .kind = kind, .weight = self->averages[0].weight };
  if (kind == TPS_GRADIENT_DENSE)
    tps_tensor_move (&average->dense, &self->dense);
  else if (kind == TPS_GRADIENT_SPARSE)
    join_rows (self, average);
  return TRUE;
}
