/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests conversions between values of the runtime and generated objects. */

#include <gtest/gtest.h>
#include <thriftps/plugin.h>

#include <cstring>
#include <string>

#include "plugin/glib/wire_values.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/base/error.h"

namespace {

class WireValues : public testing::Test
{
protected:
  /* The generated classes must be repaired first, because their objects would otherwise leak. */
  static void
  SetUpTestSuite ()
  {
    const TpsGetType types[] = {
      tps_wire_gradient_get_type,     tps_wire_service_error_get_type,
      tps_wire_shared_slice_get_type, tps_wire_sparse_tensor_get_type,
      tps_wire_tensor_get_type,
    };
    tps_register_types (types, G_N_ELEMENTS (types));
  }
};

gpointer
ToWire (const TpsStruct *type, gconstpointer value, GType wire_type)
{
  g_autoptr (GError) error = nullptr;
  gpointer wire = tps_struct_to_wire (type, value, wire_type, &error);

  EXPECT_NE (wire, nullptr) << error->message;
  return wire;
}

/* ---- tensors --------------------------------------------------------------------------------- */

TpsWireTensor *
MakeTensor (TpsTensorView view)
{
  g_auto (TpsTensor) tensor = {};

  tps_tensor_init_copy (&tensor, view);
  return static_cast<TpsWireTensor *> (ToWire (&tps_tensor_struct, &tensor, TPS_WIRE_TYPE_TENSOR));
}

TEST_F (WireValues, TensorIsBorrowedOneWayAndCopiedTheOther)
{
  const float elements[] = { 1, 2, 3, 4, 5, 6 };
  TpsTensorView view = { { TPS_DTYPE_FLOAT32, 2, { 2, 3 } }, elements };
  TpsWireTensor *wire = MakeTensor (view);
  TpsTensorView seen = {};
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (tps_tensor_view_from_wire (wire, "t", &seen, &error)) << error->message;
  EXPECT_TRUE (tps_shape_equal (&seen.shape, &view.shape));
  EXPECT_EQ (seen.data, wire->data->data);
  EXPECT_EQ (memcmp (seen.data, elements, sizeof elements), 0);
  g_object_unref (wire);
}

TEST_F (WireValues, TensorThatIsWrongIsNamed)
{
  const float elements[] = { 1, 2 };
  TpsTensorView view = { { TPS_DTYPE_FLOAT32, 1, { 2 } }, elements };
  TpsWireTensor *wire = MakeTensor (view);
  TpsTensorView seen = {};
  g_autoptr (GError) error = nullptr;

  g_byte_array_set_size (wire->data, 7);
  EXPECT_FALSE (tps_tensor_view_from_wire (wire, "gradient", &seen, &error));
  ASSERT_NE (error, nullptr);
  EXPECT_STREQ (error->message, "gradient.data has 7 bytes, FLOAT32 [2] needs 8");
  g_clear_error (&error);
  wire->dtype = static_cast<TpsWireDType> (77);
  EXPECT_FALSE (tps_tensor_view_from_wire (wire, "gradient", &seen, &error));
  EXPECT_STREQ (error->message, "gradient: unknown dtype 77");
  EXPECT_EQ (seen.data, nullptr);
  g_object_unref (wire);
}

TEST_F (WireValues, TensorWithoutElementsNeedsNoData)
{
  TpsTensorView view = { { TPS_DTYPE_FLOAT32, 2, { 0, 4 } }, nullptr };
  TpsWireTensor *wire = MakeTensor (view);
  g_auto (TpsTensor) tensor = {};
  g_autoptr (GError) error = nullptr;

  g_clear_pointer (&wire->data, g_byte_array_unref);
  ASSERT_TRUE (tps_struct_from_wire (&tps_tensor_struct, wire, "t", &tensor, &error))
      << error->message;
  EXPECT_TRUE (tps_shape_equal (&tensor.shape, &view.shape));
  g_object_unref (wire);
}

/* ---- gradients ------------------------------------------------------------------------------- */

void
FillFloats (TpsTensor *tensor)
{
  auto *elements = static_cast<float *> (tps_tensor_data (tensor));

  for (gint64 i = 0; i < tps_shape_n_elems (&tensor->shape); i++)
    elements[i] = static_cast<float> (i) + 0.5f;
}

/* Fills a sparse gradient with rows 1 and 4 of a [9, 2] matrix. */
void
MakeSparse (TpsGradient *gradient)
{
  gradient->kind = TPS_GRADIENT_SPARSE;
  gradient->weight = 1;
  gradient->rows = 9;
  tps_tensor_init_1d (&gradient->indices, TPS_DTYPE_INT64, 2);
  static_cast<gint64 *> (tps_tensor_data (&gradient->indices))[0] = 1;
  static_cast<gint64 *> (tps_tensor_data (&gradient->indices))[1] = 4;
  tps_tensor_init_2d (&gradient->values, TPS_DTYPE_FLOAT32, 2, 2);
  FillFloats (&gradient->values);
}

TEST_F (WireValues, SparseGradientKeepsItsRows)
{
  g_auto (TpsGradient) gradient = {};
  g_auto (TpsGradient) back = {};
  g_auto (TpsGradient) rows = {};
  g_autoptr (GError) error = nullptr;

  MakeSparse (&gradient);
  gradient.weight = 3;
  auto *wire = static_cast<TpsWireGradient *> (
      ToWire (&tps_gradient_struct, &gradient, TPS_WIRE_TYPE_GRADIENT));
  ASSERT_TRUE (tps_struct_from_wire (&tps_gradient_struct, wire, "gradient", &back, &error))
      << error->message;
  ASSERT_TRUE (
      tps_struct_from_wire (&tps_row_gradient_struct, wire->sparse, "gradient", &rows, &error))
      << error->message;
  for (const TpsGradient *each : { &back, &rows })
    {
      EXPECT_EQ (each->kind, TPS_GRADIENT_SPARSE);
      EXPECT_EQ (each->rows, 9);
      EXPECT_EQ (static_cast<gint64 *> (tps_tensor_data (&each->indices))[1], 4);
      EXPECT_EQ (static_cast<float *> (tps_tensor_data (&each->values))[3], 3.5f);
    }
  EXPECT_EQ (back.weight, 3);
  EXPECT_EQ (rows.weight, 1);
  g_object_unref (wire);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST_F (WireValues, FailureKeepsCodeMessageAndTimeToWait)
{
  g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "full");
  g_autoptr (GError) back = nullptr;
  TpsWireServiceError *failure;

  tps_error_set_retry_after_ms (error, 250);
  failure = tps_service_error_to_wire (error);
  back = tps_service_error_from_wire (failure);
  EXPECT_TRUE (g_error_matches (back, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_STREQ (back->message, "full");
  EXPECT_EQ (tps_error_get_retry_after_ms (back), 250);
  g_object_unref (failure);
}

} // namespace
