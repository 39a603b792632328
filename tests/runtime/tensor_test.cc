/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace {

std::string
shape_error (gint dtype, const std::vector<gint64> &dims)
{
  TpsShape shape;
  g_autoptr (GError) error = nullptr;

  if (tps_shape_init (&shape, dtype, (guint) dims.size (), dims.data (), "gradient", &error))
    return "";
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  return error->message;
}

TEST (Shape, CountsElementsAndBytes)
{
  const gint64 dims[] = { 30, 100 };
  TpsShape shape;
  g_autofree gchar *text = nullptr;

  ASSERT_TRUE (tps_shape_init (&shape, TPS_DTYPE_FLOAT64, 2, dims, "x", nullptr));
  text = tps_shape_to_string (&shape);
  EXPECT_EQ (tps_shape_n_elems (&shape), 3000);
  EXPECT_EQ (tps_shape_n_bytes (&shape), 24000u);
  EXPECT_STREQ (text, "FLOAT64 [30, 100]");
}

TEST (Shape, WithoutDimensionsIsOneElementAndWithAZeroNone)
{
  const gint64 dims[] = { G_MAXINT64, 0, 5 };
  TpsShape shape;

  ASSERT_TRUE (tps_shape_init (&shape, TPS_DTYPE_INT32, 0, nullptr, "x", nullptr));
  EXPECT_EQ (tps_shape_n_elems (&shape), 1);
  ASSERT_TRUE (tps_shape_init (&shape, TPS_DTYPE_INT32, 2, dims + 1, "x", nullptr));
  EXPECT_EQ (tps_shape_n_elems (&shape), 0);
  EXPECT_EQ (tps_shape_n_bytes (&shape), 0u);
}

TEST (Shape, RefusesInvalidShapes)
{
  EXPECT_EQ (shape_error (0, { 1 }), "gradient: unknown dtype 0");
  EXPECT_EQ (shape_error (-3, { 1 }), "gradient: unknown dtype -3");
  EXPECT_EQ (shape_error (7, { 1 }), "gradient: unknown dtype 7");
  EXPECT_EQ (shape_error (1, { 4, -1 }), "gradient: dimension 1 is negative: -1");
  EXPECT_EQ (shape_error (1, std::vector<gint64> (9, 1)),
             "gradient: 9 dimensions, at most 8 are allowed");
  EXPECT_NE (shape_error (1, { G_MAXINT64, 2 }), "");
  EXPECT_NE (shape_error (1, { G_MAXINT64 / 4, 2 }), "");
  EXPECT_NE (shape_error (1, { (gint64) 1 << 32, (gint64) 1 << 32, (gint64) 1 << 32 }), "");
  EXPECT_EQ (shape_error (1, { G_MAXINT64 / 4 }), "");
}

// For any dimensions, a shape is either refused or has the exact product, which fits.
TEST (Shape, NeverOverflows)
{
  std::mt19937_64 random (3);

  for (int round = 0; round < 20000; round++)
    {
      std::vector<gint64> dims (random () % 6);
      unsigned __int128 product = 1, bytes;
      bool is_small = true;
      TpsShape shape;
      gint dtype = 1 + (gint) (random () % 6);

      for (gint64 &dim : dims)
        dim = (gint64) (random () >> (1 + random () % 63));
      for (gint64 dim : dims)
        {
          is_small = is_small && product <= G_MAXINT64;
          product = is_small ? product * (guint64) dim : product;
        }
      bytes = product * tps_dtype_size ((TpsDType) dtype);
      if (tps_shape_init (&shape, dtype, (guint) dims.size (), dims.data (), "x", nullptr))
        {
          ASSERT_TRUE (is_small && bytes <= G_MAXINT64);
          ASSERT_EQ ((guint64) tps_shape_n_elems (&shape), (guint64) product);
        }
    }
}

TEST (Shape, EqualityLooksAtTypeAndDimensions)
{
  TpsShape a = { TPS_DTYPE_FLOAT32, 2, { 3, 4 } };
  TpsShape same = { TPS_DTYPE_FLOAT32, 2, { 3, 4, 99 } };
  TpsShape dtype = { TPS_DTYPE_INT32, 2, { 3, 4 } };
  TpsShape dims = { TPS_DTYPE_FLOAT32, 2, { 4, 3 } };
  TpsShape n_dims = { TPS_DTYPE_FLOAT32, 3, { 3, 4, 1 } };

  EXPECT_TRUE (tps_shape_equal (&a, &same));
  EXPECT_FALSE (tps_shape_equal (&a, &dtype));
  EXPECT_FALSE (tps_shape_equal (&a, &dims));
  EXPECT_FALSE (tps_shape_equal (&a, &n_dims));
}

TEST (Tensor, OwnersShareElementsAndTheLastOneFreesThem)
{
  gboolean is_freed = FALSE;
  float memory[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  TpsShape shape = { TPS_DTYPE_FLOAT32, 2, { 2, 2 } };
  TpsBuffer *buffer = tps_buffer_new_foreign (
      memory, sizeof memory, nullptr, [] (gpointer flag) { *(gboolean *) flag = TRUE; }, &is_freed);
  TpsTensor first {}, second {}, third {};

  tps_tensor_init_take (&first, &shape, buffer, 8);
  EXPECT_EQ (tps_tensor_data (&first), memory + 2);
  tps_tensor_init_ref (&second, &first);
  tps_tensor_clear (&first);
  EXPECT_TRUE (tps_tensor_is_empty (&first));
  EXPECT_FALSE (is_freed);
  tps_tensor_move (&third, &second);
  EXPECT_TRUE (tps_tensor_is_empty (&second));
  EXPECT_EQ (tps_tensor_data (&third), memory + 2);
  EXPECT_FALSE (is_freed);
  tps_tensor_clear (&third);
  EXPECT_TRUE (is_freed);
}

TEST (Tensor, MovingReleasesTheOldElements)
{
  gboolean is_freed = FALSE;
  float memory[1];
  TpsShape shape = { TPS_DTYPE_FLOAT32, 1, { 1 } };
  TpsTensor old {}, fresh {};

  tps_tensor_init_take (&old, &shape,
                        tps_buffer_new_foreign (
                            memory, sizeof memory, nullptr,
                            [] (gpointer flag) { *(gboolean *) flag = TRUE; }, &is_freed),
                        0);
  tps_tensor_init_1d (&fresh, TPS_DTYPE_INT64, 5);
  tps_tensor_move (&old, &fresh);
  EXPECT_TRUE (is_freed);
  EXPECT_EQ (old.shape.dtype, TPS_DTYPE_INT64);
  tps_tensor_clear (&old);
}

TEST (Tensor, ACopyIsIndependent)
{
  float memory[3] = { 1, 2, 3 };
  TpsTensorView view = { { TPS_DTYPE_FLOAT32, 1, { 3 } }, memory };
  g_auto (TpsTensor) copy = {};

  tps_tensor_init_copy (&copy, view);
  memory[1] = 9;
  EXPECT_EQ (((float *) tps_tensor_data (&copy))[1], 2);
  EXPECT_EQ (tps_tensor_view (&copy).data, tps_tensor_data (&copy));
}

TEST (Tensor, WithoutElementsIsStillATensor)
{
  TpsTensorView nothing = { { TPS_DTYPE_FLOAT32, 1, { 0 } }, nullptr };
  g_auto (TpsTensor) tensor = {};
  g_auto (TpsTensor) zeroed = {};

  EXPECT_TRUE (tps_tensor_is_empty (&tensor));
  EXPECT_EQ (tps_tensor_data (&tensor), nullptr);
  tps_tensor_init_copy (&tensor, nothing);
  EXPECT_FALSE (tps_tensor_is_empty (&tensor));
  tps_tensor_init_zeroed (&zeroed, &tensor.shape);
  EXPECT_EQ (tps_shape_n_elems (&zeroed.shape), 0);
}

TEST (Tensor, ZeroedElementsAreZeroAlsoInReusedMemory)
{
  TpsShape shape = { TPS_DTYPE_INT64, 1, { 1000 } };

  for (int round = 0; round < 3; round++)
    {
      g_auto (TpsTensor) tensor = {};

      tps_tensor_init_zeroed (&tensor, &shape);
      gint64 *values = (gint64 *) tps_tensor_data (&tensor);
      for (int i = 0; i < 1000; i++)
        {
          ASSERT_EQ (values[i], 0);
          values[i] = -1;
        }
    }
}

} // namespace
