/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/server/averaging/gradients.h"

#include <cmath>

#include "runtime/device/device_memory.h"
#include "tests/float16/float16.h"

namespace averaging_test {

namespace {

double
decode (TpsDType dtype, const void *element)
{
  gfloat f32;
  gdouble f64;
  guint16 bits;

  switch (dtype)
    {
    case TPS_DTYPE_FLOAT64:
      std::memcpy (&f64, element, sizeof f64);
      return f64;
    case TPS_DTYPE_FLOAT32:
      std::memcpy (&f32, element, sizeof f32);
      return f32;
    case TPS_DTYPE_FLOAT16:
      std::memcpy (&bits, element, sizeof bits);
      return tps_float16_to_float (bits);
    default:
      std::memcpy (&bits, element, sizeof bits);
      return tps_bfloat16_to_float (bits);
    }
}

/* Returns the value nearest to `value` among a 16-bit guess and its two neighbours, with ties to
 * even. */
guint16
nearest_half (TpsDType dtype, double value)
{
  guint16 guess = dtype == TPS_DTYPE_FLOAT16 ? tps_float16_from_float ((gfloat) value)
                                             : tps_bfloat16_from_float ((gfloat) value);
  guint16 best = guess;

  for (int step = -1; step <= 1; step += 2)
    {
      guint16 other = (guint16) (guess + step);
      double other_value = decode (dtype, &other);
      double best_error = std::fabs (decode (dtype, &best) - value);
      double error = std::fabs (other_value - value);

      if (std::isfinite (other_value)
          && (error < best_error || (error == best_error && other % 2 == 0)))
        best = other;
    }
  return best;
}

void
encode (TpsDType dtype, double value, std::string *bytes)
{
  gfloat f32 = (gfloat) value;
  guint16 half;

  switch (dtype)
    {
    case TPS_DTYPE_FLOAT64:
      bytes->append ((const char *) &value, sizeof value);
      break;
    case TPS_DTYPE_FLOAT32:
      bytes->append ((const char *) &f32, sizeof f32);
      break;
    default:
      half = nearest_half (dtype, value);
      bytes->append ((const char *) &half, sizeof half);
      break;
    }
}

/* Rounds the result of one operation to the sum's type. FLOAT32 operations are computed in double.
 * Products are exact there. The double rounding of sums and quotients is harmless, because a double
 * has more than twice the bits. */
double
in_sum_type (TpsDType dtype, double value)
{
  return dtype == TPS_DTYPE_FLOAT64 ? value : (double) (gfloat) value;
}

TpsShape
make_shape (TpsDType dtype, const std::vector<int64_t> &dims)
{
  TpsShape shape;
  std::vector<gint64> copy (dims.begin (), dims.end ());

  g_assert (tps_shape_init (&shape, dtype, (guint) copy.size (), copy.data (), "test", NULL));
  return shape;
}

void
init_tensor (TpsTensor *tensor, const TpsShape &shape, const std::string &bytes)
{
  tps_tensor_init (tensor, &shape);
  g_assert (tps_shape_n_bytes (&shape) == bytes.size ());
  std::memcpy (tps_tensor_data (tensor), bytes.data (), bytes.size ());
}

std::string
tensor_bytes (const TpsTensor &tensor)
{
  gsize n_bytes = tps_shape_n_bytes (&tensor.shape);

  return n_bytes == 0 ? "" : std::string ((const char *) tps_tensor_data (&tensor), n_bytes);
}

std::string
shape_text (const TpsShape &shape)
{
  g_autofree gchar *text = tps_shape_to_string (&shape);

  return text;
}

/* Rows by id. A dense contribution is one row with id 0. */
using RowMap = std::map<int64_t, std::vector<double>>;

/* Adds the duplicates of a trainer in their order, before they are weighted. */
RowMap
combine_rows (const Contribution &contribution)
{
  RowMap rows;
  std::vector<int64_t> ids = contribution.kind == TPS_GRADIENT_SPARSE ? contribution.ids
                                                                      : std::vector<int64_t> { 0 };
  size_t dim = contribution.kind == TPS_GRADIENT_SPARSE ? (size_t) contribution.shape[1]
                                                        : contribution.values.size ();

  for (size_t i = 0; i < ids.size (); i++)
    {
      std::vector<double> row (contribution.values.begin () + (ptrdiff_t) (i * dim),
                               contribution.values.begin () + (ptrdiff_t) ((i + 1) * dim));
      auto found = rows.find (ids[i]);

      if (found == rows.end ())
        rows[ids[i]] = row;
      else
        for (size_t j = 0; j < dim; j++)
          found->second[j] = in_sum_type (contribution.dtype, found->second[j] + row[j]);
    }
  return rows;
}

void
add_rows (RowMap *sum, const RowMap &rows, double weight, TpsDType dtype)
{
  for (const auto &[id, row] : rows)
    {
      auto found = sum->find (id);
      std::vector<double> weighted;

      for (double value : row)
        weighted.push_back (in_sum_type (dtype, weight * value));
      if (found == sum->end ())
        (*sum)[id] = weighted;
      else
        for (size_t j = 0; j < weighted.size (); j++)
          found->second[j] = in_sum_type (dtype, found->second[j] + weighted[j]);
    }
}

} // namespace

Contribution
dense (std::vector<double> values, double weight, TpsDType dtype)
{
  Contribution contribution;

  contribution.kind = TPS_GRADIENT_DENSE;
  contribution.dtype = dtype;
  contribution.weight = weight;
  contribution.shape = { (int64_t) values.size () };
  contribution.values = values;
  return contribution;
}

Contribution
sparse (std::vector<int64_t> ids, int64_t rows, int64_t dim, std::vector<double> values,
        double weight, TpsDType dtype)
{
  Contribution contribution;

  contribution.kind = TPS_GRADIENT_SPARSE;
  contribution.dtype = dtype;
  contribution.weight = weight;
  contribution.shape = { rows, dim };
  contribution.ids = ids;
  contribution.values = values;
  return contribution;
}

Contribution
no_data ()
{
  Contribution contribution;

  contribution.weight = 0;
  return contribution;
}

double
round_to (TpsDType dtype, double value)
{
  std::string bytes;

  encode (dtype, value, &bytes);
  return decode (dtype, bytes.data ());
}

TpsGradient
to_gradient (const Contribution &contribution)
{
  TpsGradient gradient = {};
  std::string bytes;

  for (double value : contribution.values)
    encode (contribution.dtype, value, &bytes);
  gradient.kind = contribution.kind;
  gradient.weight = contribution.weight;
  if (contribution.kind == TPS_GRADIENT_DENSE)
    init_tensor (&gradient.dense, make_shape (contribution.dtype, contribution.shape), bytes);
  if (contribution.kind == TPS_GRADIENT_SPARSE)
    {
      int64_t nnz = (int64_t) contribution.ids.size ();

      init_tensor (
          &gradient.indices, make_shape (TPS_DTYPE_INT64, { nnz }),
          std::string ((const char *) contribution.ids.data (), contribution.ids.size () * 8));
      init_tensor (&gradient.values,
                   make_shape (contribution.dtype, { nnz, contribution.shape[1] }), bytes);
      gradient.rows = contribution.shape[0];
    }
  return gradient;
}

Average
to_average (const TpsGradient &gradient)
{
  Average average;

  average.kind = gradient.kind;
  if (gradient.kind == TPS_GRADIENT_DENSE)
    {
      g_auto (TpsTensor) here = {};
      bool is_here = tps_device_memory_of_tensor (&gradient.dense) == nullptr;

      g_assert (is_here || tps_device_memory_download (&here, &gradient.dense, nullptr));
      average.shape = shape_text (gradient.dense.shape);
      average.bytes = tensor_bytes (is_here ? gradient.dense : here);
    }
  if (gradient.kind == TPS_GRADIENT_SPARSE)
    {
      const gint64 *ids = (const gint64 *) tps_tensor_data (&gradient.indices);

      average.shape = shape_text (gradient.values.shape) + " of " + std::to_string (gradient.rows);
      average.ids.assign (ids, ids + gradient.indices.shape.dims[0]);
      average.bytes = tensor_bytes (gradient.values);
    }
  return average;
}

Average
as_average (const Contribution &contribution)
{
  TpsGradient gradient = to_gradient (contribution);
  Average average = to_average (gradient);

  tps_gradient_clear (&gradient);
  return average;
}

Average
expected_average (const std::vector<Contribution> &by_trainer, bool is_sum)
{
  const Contribution *sample = nullptr;
  double divisor = 0;
  Average average;
  RowMap sum;

  for (const Contribution &contribution : by_trainer)
    {
      divisor += contribution.weight;
      if (contribution.kind == TPS_GRADIENT_NONE || contribution.weight == 0)
        continue;
      sample = &contribution;
      add_rows (&sum, combine_rows (contribution), contribution.weight, contribution.dtype);
    }
  g_assert (sample != nullptr);
  average.kind = sample->kind;
  for (const auto &[id, row] : sum)
    {
      if (sample->kind == TPS_GRADIENT_SPARSE)
        average.ids.push_back (id);
      for (double value : row)
        encode (sample->dtype, is_sum ? value : value / divisor, &average.bytes);
    }
  if (sample->kind == TPS_GRADIENT_DENSE)
    average.shape = shape_text (make_shape (sample->dtype, sample->shape));
  else
    average.shape = shape_text (
                        make_shape (sample->dtype, { (int64_t) sum.size (), sample->shape[1] }))
                    + " of " + std::to_string (sample->shape[0]);
  return average;
}

} // namespace averaging_test
