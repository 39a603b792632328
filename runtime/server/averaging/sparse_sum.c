/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A first pass counts the rows of the union, and a second pass merges the rows. There are two
 * shortcuts: the first gradient becomes the sum in place if possible, and a gradient without new
 * rows is added in place.
 */

#include "runtime/server/averaging/sparse_sum.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/server/averaging/reduction.h"
#include "runtime/device/cpu/kernels/elementwise.h"

typedef struct
{
  gint64 id;
  gint64 position; /* of the row in the gradient */
} Row;

/* A gradient's rows in ascending order of (id, position). */
typedef struct
{
  const gint64 *ids;
  const guint8 *values;
  Row *sorted; /* NULL = `ids` are strictly ascending */
  gint64 n_rows;
  gsize dim;
  gsize row_bytes;
  gsize sum_row_bytes;
  TpsDType dtype;
  TpsDType sum_dtype;
  gdouble weight;
  gpointer scratch;  /* one row of the sum's type; NULL if `sorted` is NULL */
  TpsBuffer *memory; /* of `sorted` and `scratch` */
} Rows;

static gint64
id_at (const Rows *rows, gint64 i)
{
  return rows->sorted == NULL ? rows->ids[i] : rows->sorted[i].id;
}

static const guint8 *
values_at (const Rows *rows, gint64 i)
{
  gint64 position = rows->sorted == NULL ? i : rows->sorted[i].position;

  return rows->values + (gsize) position * rows->row_bytes;
}

static gboolean
ascends_strictly (const gint64 *ids, gint64 n_ids)
{
  for (gint64 i = 1; i < n_ids; i++)
    if (ids[i] <= ids[i - 1])
      return FALSE;
  return TRUE;
}

/* Equal ids are compared by position, because qsort() is not stable. */
static int
compare_rows (const void *a, const void *b)
{
  const Row *left = a;
  const Row *right = b;

  if (left->id != right->id)
    return left->id < right->id ? -1 : 1;
  return left->position < right->position ? -1 : 1;
}

/* Sorts rows whose ids are not strictly ascending, and provides the scratch row. */
static gboolean
sort_rows (Rows *rows, TpsBufferPool *buffers, GError **error)
{
  gsize n_rows = (gsize) rows->n_rows;

  rows->memory = tps_buffer_pool_get (buffers, n_rows * sizeof (Row) + rows->sum_row_bytes, error);
  if (rows->memory == NULL)
    {
      g_prefix_error (error, "no memory to sort %" G_GSIZE_FORMAT " rows: ", n_rows);
      return FALSE;
    }
  rows->sorted = (Row *) (gpointer) tps_buffer_get_data (rows->memory);
  rows->scratch = rows->sorted + n_rows;
  for (gint64 i = 0; i < rows->n_rows; i++)
    rows->sorted[i] = (Row) { .id = rows->ids[i], .position = i };
  qsort (rows->sorted, n_rows, sizeof *rows->sorted, compare_rows);
  return TRUE;
}

static gboolean
rows_init (Rows *rows, const TpsGradient *gradient, TpsBufferPool *buffers, GError **error)
{
  TpsDType dtype = gradient->values.shape.dtype;

  *rows = (Rows) {
    .ids = tps_tensor_data (&gradient->indices),
    .values = tps_tensor_data (&gradient->values),
    .n_rows = gradient->values.shape.dims[0],
    .dim = (gsize) gradient->values.shape.dims[1],
    .dtype = dtype,
    .sum_dtype = tps_cpu_sum_dtype (dtype),
    .weight = gradient->weight,
  };
  rows->row_bytes = rows->dim * tps_dtype_size (dtype);
  rows->sum_row_bytes = rows->dim * tps_dtype_size (rows->sum_dtype);
  return ascends_strictly (rows->ids, rows->n_rows) || sort_rows (rows, buffers, error);
}

static void
rows_clear (Rows *rows)
{
  g_clear_pointer (&rows->memory, tps_buffer_unref);
}

/* Returns the first position after `i` with a different id, or the number of rows. */
static gint64
end_of_group (const Rows *rows, gint64 i)
{
  gint64 end = i + 1;

  while (rows->sorted != NULL && end < rows->n_rows && rows->sorted[end].id == rows->sorted[i].id)
    end++;
  return end;
}

/* Adds rows [begin, end), which have the same id, to `row` of the sum. If `is_new` is TRUE, sets
 * `row` instead. */
static void
add_group (const Rows *rows, gint64 begin, gint64 end, gpointer row, gboolean is_new)
{
  gconstpointer values = values_at (rows, begin);
  TpsDType dtype = rows->dtype;

  if (end - begin > 1)
    {
      tps_cpu_cast (rows->sum_dtype, rows->scratch, dtype, values, rows->dim);
      for (gint64 i = begin + 1; i < end; i++)
        tps_cpu_accumulate (dtype, rows->scratch, values_at (rows, i), rows->dim);
      values = rows->scratch;
      dtype = rows->sum_dtype;
    }
  if (is_new)
    tps_cpu_scale (dtype, row, values, rows->weight, rows->dim);
  else
    tps_cpu_scale_accumulate (dtype, row, values, rows->weight, rows->dim);
}

/* Returns the number of ids in the union of the sum and the rows. */
static gint64
count_union (const gint64 *sum_ids, gint64 n_sum, const Rows *rows)
{
  gint64 n_union = 0;
  gint64 s = 0;

  for (gint64 i = 0; i < rows->n_rows; i = end_of_group (rows, i), n_union++)
    {
      gint64 id = id_at (rows, i);

      for (; s < n_sum && sum_ids[s] < id; s++)
        n_union++;
      if (s < n_sum && sum_ids[s] == id)
        s++;
    }
  return n_union + (n_sum - s);
}

static void
add_in_place (TpsGradient *sum, const Rows *rows)
{
  const gint64 *sum_ids = tps_tensor_data (&sum->indices);
  guint8 *row = tps_tensor_data (&sum->values);
  gint64 s = 0;

  for (gint64 i = 0, end; i < rows->n_rows; i = end)
    {
      end = end_of_group (rows, i);
      while (sum_ids[s] != id_at (rows, i))
        s++;
      add_group (rows, i, end, row + (gsize) s * rows->sum_row_bytes, FALSE);
    }
}

/* Writes the union of `sum` and `rows` to `ids` and `values`, which must have room for it. */
static void
merge (const TpsGradient *sum, gint64 n_sum, const Rows *rows, gint64 *ids, guint8 *values)
{
  const gint64 *sum_ids = tps_tensor_data (&sum->indices);
  const guint8 *sum_values = tps_tensor_data (&sum->values);
  gsize row_bytes = rows->sum_row_bytes;
  gint64 s = 0;
  gint64 i = 0;

  for (; s < n_sum || i < rows->n_rows; ids++, values += row_bytes)
    {
      gboolean from_sum = s < n_sum && (i == rows->n_rows || sum_ids[s] <= id_at (rows, i));
      gboolean from_rows = i < rows->n_rows && (s == n_sum || id_at (rows, i) <= sum_ids[s]);
      gint64 end = from_rows ? end_of_group (rows, i) : i;

      *ids = from_sum ? sum_ids[s] : id_at (rows, i);
      if (from_sum && row_bytes > 0)
        memcpy (values, sum_values + (gsize) s * row_bytes, row_bytes);
      if (from_rows)
        add_group (rows, i, end, values, !from_sum);
      s += from_sum;
      i = end;
    }
}

static gboolean
grow (TpsGradient *sum, gint64 n_sum, gint64 n_union, const Rows *rows, TpsBufferPool *buffers,
      GError **error)
{
  TpsShape ids_shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { n_union } };
  TpsShape values_shape = { .dtype = rows->sum_dtype,
                            .n_dims = 2,
                            .dims = { n_union, (gint64) rows->dim } };
  g_auto (TpsTensor) ids = { 0 };
  g_auto (TpsTensor) values = { 0 };

  if (!tps_reduction_allocate (&ids, &ids_shape, buffers, error)
      || !tps_reduction_allocate (&values, &values_shape, buffers, error))
    return FALSE;
  merge (sum, n_sum, rows, tps_tensor_data (&ids), tps_tensor_data (&values));
  tps_tensor_move (&sum->indices, &ids);
  tps_tensor_move (&sum->values, &values);
  return TRUE;
}

/* Returns TRUE if `gradient` can become the sum in place. */
static gboolean
is_sum_already (const TpsGradient *gradient, const Rows *rows)
{
  return rows->sorted == NULL && rows->dtype == rows->sum_dtype && gradient->weight == 1
         && gradient->values.buffer != NULL && tps_buffer_is_exclusive (gradient->values.buffer);
}

static gboolean
start (TpsGradient *sum, TpsGradient *gradient, const Rows *rows, TpsBufferPool *buffers,
       GError **error)
{
  if (is_sum_already (gradient, rows))
    {
      tps_tensor_move (&sum->indices, &gradient->indices);
      tps_tensor_move (&sum->values, &gradient->values);
    }
  else if (!grow (sum, 0, count_union (NULL, 0, rows), rows, buffers, error))
    return FALSE;
  sum->kind = TPS_GRADIENT_SPARSE;
  sum->rows = gradient->rows;
  return TRUE;
}

static gboolean
add (TpsGradient *sum, const Rows *rows, TpsBufferPool *buffers, GError **error)
{
  gint64 n_sum = sum->indices.shape.dims[0];
  gint64 n_union = count_union (tps_tensor_data (&sum->indices), n_sum, rows);

  if (n_union > n_sum)
    return grow (sum, n_sum, n_union, rows, buffers, error);
  add_in_place (sum, rows);
  return TRUE;
}

gboolean
tps_sparse_sum_add (TpsGradient *sum, TpsGradient *gradient, TpsBufferPool *buffers, GError **error)
{
  gboolean ok;
  Rows rows;

  if (!rows_init (&rows, gradient, buffers, error))
    return FALSE;
  ok = sum->kind == TPS_GRADIENT_NONE ? start (sum, gradient, &rows, buffers, error)
                                      : add (sum, &rows, buffers, error);
  rows_clear (&rows);
  return ok;
}
