/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/gradient.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace {

using testing::HasSubstr;

TpsGradient
make_dense (TpsDType dtype = TPS_DTYPE_FLOAT32)
{
  TpsGradient gradient = {};

  gradient.kind = TPS_GRADIENT_DENSE;
  gradient.weight = 1;
  tps_tensor_init_2d (&gradient.dense, dtype, 2, 3);
  return gradient;
}

TpsGradient
make_sparse (std::vector<gint64> ids)
{
  TpsGradient gradient = {};

  gradient.kind = TPS_GRADIENT_SPARSE;
  gradient.weight = 1;
  gradient.rows = 10;
  tps_tensor_init_1d (&gradient.indices, TPS_DTYPE_INT64, (gint64) ids.size ());
  if (!ids.empty ())
    memcpy (tps_tensor_data (&gradient.indices), ids.data (), ids.size () * sizeof ids[0]);
  tps_tensor_init_2d (&gradient.values, TPS_DTYPE_BFLOAT16, (gint64) ids.size (), 4);
  return gradient;
}

/* Returns the message of the refusal, or "" if the gradient is accepted. Clears the gradient. */
std::string
refusal (TpsGradient gradient)
{
  g_autoptr (GError) error = NULL;
  gboolean ok = tps_gradient_check (&gradient, &error);

  tps_gradient_clear (&gradient);
  EXPECT_EQ (ok, error == NULL);
  EXPECT_TRUE (ok || g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  return ok ? "" : error->message;
}

TpsGradient
with_weight (TpsGradient gradient, gdouble weight)
{
  gradient.weight = weight;
  return gradient;
}

TEST (Gradient, WellFormedOnesPass)
{
  EXPECT_EQ (refusal (make_dense ()), "");
  EXPECT_EQ (refusal (make_dense (TPS_DTYPE_FLOAT16)), "");
  EXPECT_EQ (refusal (make_sparse ({ 9, 0, 9 })), "");
  EXPECT_EQ (refusal (make_sparse ({})), "");
  EXPECT_EQ (refusal (TpsGradient {}), "");
  EXPECT_EQ (refusal (with_weight (make_dense (), 0)), "");
}

TEST (Gradient, BadWeightsAreRefused)
{
  EXPECT_THAT (refusal (with_weight (make_dense (), -1)), HasSubstr ("gradient.weight is -1"));
  EXPECT_THAT (refusal (with_weight (make_dense (), NAN)), HasSubstr ("gradient.weight is nan"));
  EXPECT_THAT (refusal (with_weight (make_dense (), INFINITY)),
               HasSubstr ("gradient.weight is inf"));
  for (gdouble weight : { 1e40, 3.5e38, 1e-38, 1e-46, 5e-324 })
    EXPECT_THAT (refusal (with_weight (make_dense (), weight)), HasSubstr ("gradient.weight is"));
  for (gdouble weight : { 3.4e38, 1.2e-38 })
    EXPECT_EQ (refusal (with_weight (make_dense (), weight)), "");
  EXPECT_THAT (refusal (with_weight (TpsGradient {}, 1)), HasSubstr ("neither dense nor sparse"));
}

TEST (Gradient, IntegersAndMissingTensorsAreRefused)
{
  TpsGradient no_tensor = {};

  no_tensor.kind = TPS_GRADIENT_DENSE;
  EXPECT_THAT (refusal (make_dense (TPS_DTYPE_INT64)),
               HasSubstr ("dtype INT64 cannot be averaged"));
  EXPECT_THAT (refusal (no_tensor), HasSubstr ("gradient.dense: missing"));
}

TEST (Gradient, IndicesOutOfRangeAreNamed)
{
  EXPECT_THAT (refusal (make_sparse ({ 1, 10 })),
               HasSubstr ("indices[1] is 10, expected 0 <= index < 10"));
  EXPECT_THAT (refusal (make_sparse ({ -1 })), HasSubstr ("indices[0] is -1"));
}

TEST (Gradient, ShapesOfSparsePartsMustFit)
{
  TpsGradient flat = make_sparse ({ 1, 2 });
  TpsGradient many = make_sparse ({ 1, 2 });
  TpsGradient floats = make_sparse ({ 1, 2 });
  TpsGradient negative = make_sparse ({});

  tps_tensor_clear (&flat.values);
  tps_tensor_init_1d (&flat.values, TPS_DTYPE_FLOAT32, 2);
  EXPECT_THAT (refusal (flat), HasSubstr ("values is FLOAT32 [2], expected [2, dim]"));
  tps_tensor_clear (&many.values);
  tps_tensor_init_2d (&many.values, TPS_DTYPE_FLOAT32, 3, 4);
  EXPECT_THAT (refusal (many), HasSubstr ("values is FLOAT32 [3, 4], expected [2, dim]"));
  tps_tensor_clear (&floats.indices);
  tps_tensor_init_1d (&floats.indices, TPS_DTYPE_FLOAT64, 2);
  EXPECT_THAT (refusal (floats), HasSubstr ("indices is FLOAT64 [2], expected INT64 [nnz]"));
  negative.rows = -1;
  EXPECT_THAT (refusal (negative), HasSubstr ("-1 rows"));
}

TEST (Gradient, IsDescribedByItsKindTypeAndShape)
{
  TpsGradient dense = make_dense ();
  TpsGradient sparse = make_sparse ({ 1 });
  TpsGradient none = {};
  g_autofree gchar *dense_text = tps_gradient_to_string (&dense);
  g_autofree gchar *sparse_text = tps_gradient_to_string (&sparse);
  g_autofree gchar *none_text = tps_gradient_to_string (&none);

  EXPECT_STREQ (dense_text, "dense FLOAT32 [2, 3]");
  EXPECT_STREQ (sparse_text, "sparse BFLOAT16 [10, 4]");
  EXPECT_STREQ (none_text, "no data");
  tps_gradient_clear (&dense);
  tps_gradient_clear (&sparse);
}

TEST (Gradient, MovesAndSharesElements)
{
  TpsGradient from = make_sparse ({ 1, 2 });
  TpsGradient to = make_dense ();
  TpsGradient other;
  gconstpointer elements = tps_tensor_data (&from.values);

  tps_gradient_move (&to, &from);
  EXPECT_EQ (from.kind, TPS_GRADIENT_NONE);
  EXPECT_TRUE (tps_tensor_is_empty (&to.dense));
  EXPECT_EQ (tps_tensor_data (&to.values), elements);
  tps_gradient_init_ref (&other, &to);
  EXPECT_EQ (tps_tensor_data (&other.values), elements);
  EXPECT_EQ (other.rows, 10);
  EXPECT_FALSE (tps_buffer_is_exclusive (to.values.buffer));
  tps_gradient_clear (&to);
  EXPECT_TRUE (tps_buffer_is_exclusive (other.values.buffer));
  tps_gradient_clear (&other);
}

} // namespace
