/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/dtype.h"

static const struct
{
  const gchar *name;
  gsize size;
  gboolean is_floating;
} dtypes[] = {
  [TPS_DTYPE_FLOAT32] = { "FLOAT32", 4, TRUE }, [TPS_DTYPE_FLOAT64] = { "FLOAT64", 8, TRUE },
  [TPS_DTYPE_FLOAT16] = { "FLOAT16", 2, TRUE }, [TPS_DTYPE_BFLOAT16] = { "BFLOAT16", 2, TRUE },
  [TPS_DTYPE_INT32] = { "INT32", 4, FALSE },    [TPS_DTYPE_INT64] = { "INT64", 8, FALSE },
};

gboolean
tps_dtype_is_valid (gint value)
{
  return value >= TPS_DTYPE_FLOAT32 && value <= TPS_DTYPE_INT64;
}

gsize
tps_dtype_size (TpsDType dtype)
{
  g_assert (tps_dtype_is_valid (dtype));
  return dtypes[dtype].size;
}

const gchar *
tps_dtype_name (TpsDType dtype)
{
  return tps_dtype_is_valid (dtype) ? dtypes[dtype].name : "UNKNOWN";
}

gboolean
tps_dtype_is_floating (TpsDType dtype)
{
  return tps_dtype_is_valid (dtype) && dtypes[dtype].is_floating;
}
