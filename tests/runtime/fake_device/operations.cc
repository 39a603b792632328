/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Each operation resolves its arguments and queues the CPU's operation. */

#include "tests/runtime/fake_device/operations.h"

#include <algorithm>

#include "runtime/trainer/dense/dense.h"
#include "tests/runtime/fake_device/queue.h"

namespace fake_device {

namespace {

size_t
bytes_of (TpsDType dtype, size_t n_elems)
{
  return n_elems * tps_dtype_size (dtype);
}

size_t
sum_bytes_of (TpsDType dtype, size_t n_elems)
{
  return n_elems * (dtype == TPS_DTYPE_FLOAT64 ? sizeof (gdouble) : sizeof (gfloat));
}

/* -- elements -- */

void
copy (TpsStream *stream, gpointer to, gconstpointer from, gsize n_bytes)
{
  Call call (stream, "copy");
  gpointer t = call.anywhere (to, n_bytes);
  gconstpointer f = call.anywhere (from, n_bytes);

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->copy (s, t, f, n_bytes); });
}

void
copy_rows (TpsStream *stream, gpointer to, gsize to_stride, gconstpointer from, gsize from_stride,
           gsize row_bytes, gsize n_rows)
{
  Call call (stream, "copy_rows");
  auto range = [=] (gsize stride) {
    if (row_bytes > 0 && n_rows > 0 && (stride < row_bytes || stride > G_MAXINT32))
      die ("copy_rows: a stride of %zu bytes for rows of %zu", stride, row_bytes);
    return row_bytes > 0 && n_rows > 0 ? (n_rows - 1) * stride + row_bytes : 0;
  };
  gpointer t = call.anywhere (to, range (to_stride));
  gconstpointer f = call.anywhere (from, range (from_stride));

  call.enqueue ([=] (auto *cpu, auto *s) {
    cpu->copy_rows (s, t, to_stride, f, from_stride, row_bytes, n_rows);
  });
}

void
zero (TpsStream *stream, gpointer values, gsize n_bytes)
{
  Call call (stream, "zero");
  gpointer v = call.bytes_at (values, n_bytes);

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->zero (s, v, n_bytes); });
}

void
fill (TpsStream *stream, TpsDType dtype, gpointer values, gdouble value, gsize n_elems)
{
  Call call (stream, "fill");
  gpointer v = call.bytes_at (values, bytes_of (dtype, n_elems));

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->fill (s, dtype, v, value, n_elems); });
}

void
cast (TpsStream *stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype, gconstpointer from,
      gsize n_elems)
{
  Call call (stream, "cast");
  gpointer t = call.bytes_at (to, bytes_of (to_dtype, n_elems));
  gconstpointer f = call.bytes_at (from, bytes_of (from_dtype, n_elems));

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->cast (s, to_dtype, t, from_dtype, f, n_elems); });
}

void
accumulate (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient, gsize n_elems)
{
  Call call (stream, "accumulate");
  gpointer to = call.bytes_at (sum, sum_bytes_of (dtype, n_elems));
  gconstpointer from = call.bytes_at (gradient, bytes_of (dtype, n_elems));

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->accumulate (s, dtype, to, from, n_elems); });
}

void
scale (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
       gsize n_elems)
{
  Call call (stream, "scale");
  gpointer to = call.bytes_at (sum, sum_bytes_of (dtype, n_elems));
  gconstpointer from = call.bytes_at (gradient, bytes_of (dtype, n_elems));

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->scale (s, dtype, to, from, weight, n_elems); });
}

void
scale_accumulate (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                  gdouble weight, gsize n_elems)
{
  Call call (stream, "scale_accumulate");
  gpointer to = call.bytes_at (sum, sum_bytes_of (dtype, n_elems));
  gconstpointer from = call.bytes_at (gradient, bytes_of (dtype, n_elems));

  call.enqueue (
      [=] (auto *cpu, auto *s) { cpu->scale_accumulate (s, dtype, to, from, weight, n_elems); });
}

void
divide (TpsStream *stream, TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor,
        gsize n_elems)
{
  Call call (stream, "divide");
  gpointer to = call.bytes_at (average, bytes_of (dtype, n_elems));
  gconstpointer from = call.bytes_at (sum, sum_bytes_of (dtype, n_elems));

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->divide (s, dtype, to, from, divisor, n_elems); });
}

/* -- rows -- */

TpsBags
find_bags (Call *call, const TpsBags *bags)
{
  TpsBags found = *bags;

  found.indices = call->at (bags->indices, bags->n_indices);
  found.offsets = call->at (bags->offsets, bags->n_bags);
  found.weights = call->at (bags->weights, bags->n_indices);
  return found;
}

void
embedding_pool (TpsStream *stream, const TpsBags *bags, TpsDType dtype, gconstpointer table,
                gfloat *output)
{
  Call call (stream, "embedding_pool");
  size_t n_outputs = bags->n_bags * (size_t) bags->dim;
  TpsBags b = find_bags (&call, bags);
  gconstpointer rows = call.bytes_at (table, bytes_of (dtype, (size_t) (bags->rows * bags->dim)));
  gfloat *out = call.at (output, n_outputs);

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->embedding_pool (s, &b, dtype, rows, out); });
}

void
embedding_backward (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                    gfloat *table_gradient)
{
  Call call (stream, "embedding_backward");
  size_t n_outputs = bags->n_bags * (size_t) bags->dim;
  TpsBags b = find_bags (&call, bags);
  const gfloat *from = call.at (output_gradient, n_outputs);
  gfloat *to = call.at (table_gradient, (size_t) (bags->rows * bags->dim));

  call.enqueue ([=] (auto *cpu, auto *s) { cpu->embedding_backward (s, &b, from, to); });
}

void
embedding_backward_rows (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                         gint64 *unique_indices, gfloat *row_gradients, gint64 *n_unique)
{
  Call call (stream, "embedding_backward_rows");
  size_t dim = (size_t) bags->dim, n_outputs = bags->n_bags * dim;
  size_t capacity = std::min ((size_t) bags->rows, (size_t) bags->n_indices);
  TpsBags b = find_bags (&call, bags);
  const gfloat *from = call.at (output_gradient, n_outputs);
  gint64 *ids = call.at (unique_indices, capacity);
  gfloat *rows = call.at (row_gradients, capacity * dim);
  gint64 *n = call.at (n_unique, 1);

  call.enqueue (
      [=] (auto *cpu, auto *s) { cpu->embedding_backward_rows (s, &b, from, ids, rows, n); });
}

/* -- layers -- */

void
gemm (TpsStream *stream, const TpsGemm *arguments)
{
  Call call (stream, "gemm");
  TpsGemm g = *arguments;

  g.a = call.at (g.a, g.m * g.k);
  g.b = call.at (g.b, g.k * g.n);
  g.c = call.at (g.c, g.m * g.n);
  call.enqueue ([=] (auto *, auto *s) { tps_cpu_dense_ops.gemm (s, &g); });
}

void
bias_add (TpsStream *stream, gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  Call call (stream, "bias_add");
  gfloat *v = call.at (values, rows * columns);
  const gfloat *b = call.at (bias, columns);

  call.enqueue ([=] (auto *, auto *s) { tps_cpu_dense_ops.bias_add (s, v, b, rows, columns); });
}

void
column_sum (TpsStream *stream, gfloat *sums, const gfloat *values, gsize rows, gsize columns)
{
  Call call (stream, "column_sum");
  gfloat *to = call.at (sums, columns);
  const gfloat *v = call.at (values, rows * columns);

  call.enqueue ([=] (auto *, auto *s) { tps_cpu_dense_ops.column_sum (s, to, v, rows, columns); });
}

void
relu (TpsStream *stream, gfloat *output, const gfloat *input, gsize n_elems)
{
  Call call (stream, "relu");
  gfloat *to = call.at (output, n_elems);
  const gfloat *from = call.at (input, n_elems);

  call.enqueue ([=] (auto *, auto *s) { tps_cpu_dense_ops.relu (s, to, from, n_elems); });
}

void
relu_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
               const gfloat *output, gsize n_elems)
{
  Call call (stream, "relu_backward");
  gfloat *to = call.at (input_gradient, n_elems);
  const gfloat *from = call.at (output_gradient, n_elems);
  const gfloat *out = call.at (output, n_elems);

  call.enqueue (
      [=] (auto *, auto *s) { tps_cpu_dense_ops.relu_backward (s, to, from, out, n_elems); });
}

void
softmax (TpsStream *stream, gfloat *output, const gfloat *input, gsize rows, gsize columns)
{
  Call call (stream, "softmax");
  gfloat *to = call.at (output, rows * columns);
  const gfloat *from = call.at (input, rows * columns);

  call.enqueue ([=] (auto *, auto *s) { tps_cpu_dense_ops.softmax (s, to, from, rows, columns); });
}

void
softmax_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                  const gfloat *output, gsize rows, gsize columns)
{
  Call call (stream, "softmax_backward");
  gfloat *to = call.at (input_gradient, rows * columns);
  const gfloat *from = call.at (output_gradient, rows * columns);
  const gfloat *out = call.at (output, rows * columns);

  call.enqueue ([=] (auto *, auto *s) {
    tps_cpu_dense_ops.softmax_backward (s, to, from, out, rows, columns);
  });
}

void
cross_entropy (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
               const gint64 *target, gsize rows, gsize columns)
{
  Call call (stream, "cross_entropy");
  gdouble *l = call.at (loss, 1);
  gfloat *to = call.at (input_gradient, rows * columns);
  const gfloat *from = call.at (input, rows * columns);
  const gint64 *classes = call.at (target, rows);

  call.enqueue ([=] (auto *, auto *s) {
    tps_cpu_dense_ops.cross_entropy (s, l, to, from, classes, rows, columns);
  });
}

void
l1_loss (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
         const gfloat *target, gsize n_elems)
{
  Call call (stream, "l1_loss");
  gdouble *l = call.at (loss, 1);
  gfloat *to = call.at (input_gradient, n_elems);
  const gfloat *from = call.at (input, n_elems);
  const gfloat *wanted = call.at (target, n_elems);

  call.enqueue (
      [=] (auto *, auto *s) { tps_cpu_dense_ops.l1_loss (s, l, to, from, wanted, n_elems); });
}

/* -- optimizers: a row's index is known only when the operation runs, so the bounds of the table
 * are not checked -- */

void
sgd (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values, const gfloat *gradient,
     gfloat *velocity, gsize n_elems)
{
  Call call (stream, "sgd");
  TpsSgdFactors f = *factors;
  gfloat *v = call.at (values, n_elems);
  const gfloat *from = call.at (gradient, n_elems);
  gfloat *speed = call.at (velocity, n_elems);

  call.enqueue ([=] (auto *, auto *s) { tps_cpu_dense_ops.sgd (s, &f, v, from, speed, n_elems); });
}

void
sgd_rows (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values, const gint64 *indices,
          const gfloat *gradients, gfloat *velocity, gsize n_rows, gsize dim)
{
  Call call (stream, "sgd_rows");
  TpsSgdFactors f = *factors;
  gfloat *v = call.at (values, n_rows * dim);
  const gint64 *ids = call.at (indices, n_rows);
  const gfloat *from = call.at (gradients, n_rows * dim);
  gfloat *speed = call.at (velocity, n_rows * dim);

  call.enqueue ([=] (auto *, auto *s) {
    tps_cpu_dense_ops.sgd_rows (s, &f, v, ids, from, speed, n_rows, dim);
  });
}

void
update_rows (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
             const TpsRowUpdate *update)
{
  Call call (stream, "update_rows");
  TpsOptimizerSpec o = *spec;
  TpsRowUpdate u = *update;
  size_t n_elems = u.n_rows * u.dim;

  u.indices = call.at (u.indices, u.n_rows);
  u.values = call.bytes_at (u.values, bytes_of (u.dtype, n_elems));
  u.state = call.at (u.state, u.n_rows * tps_optimizer_state_per_row (&o, u.dim));
  u.gradients = call.at (u.gradients, n_elems);
  u.n_used = call.at (u.n_used, 1);
  call.enqueue ([=] (auto *cpu, auto *s) { cpu->update_rows (s, &o, step, &u); });
}

} // namespace

void
fill_operations (TpsDeviceOps *ops)
{
  ops->copy = copy;
  ops->copy_rows = copy_rows;
  ops->zero = zero;
  ops->fill = fill;
  ops->cast = cast;
  ops->accumulate = accumulate;
  ops->scale = scale;
  ops->scale_accumulate = scale_accumulate;
  ops->divide = divide;
  ops->embedding_pool = embedding_pool;
  ops->embedding_backward = embedding_backward;
  ops->embedding_backward_rows = embedding_backward_rows;
  ops->update_rows = update_rows;
}

const TpsDenseOps dense_operations = {
  gemm,          bias_add, column_sum, relu,     relu_backward, softmax, softmax_backward,
  cross_entropy, l1_loss,  sgd,        sgd_rows,
};

} // namespace fake_device
