/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Casts. There is one loop for each pair of types, and a table of these loops. */

#include "runtime/device/cpu/kernels/convert.h"
#include "runtime/device/cpu/kernels/elementwise.h"

typedef void (*CastFunc) (gpointer to, gconstpointer from, gsize n_elems);

#define CAST_LOOP(from_name, to_name, from_type, to_type, convert)                                \
  TPS_TARGET_CLONES static void from_name##_to_##to_name (gpointer to_data,                       \
                                                          gconstpointer from_data, gsize n_elems) \
  {                                                                                               \
    to_type *to = to_data;                                                                        \
    const from_type *from = from_data;                                                            \
                                                                                                  \
    TPS_INDEPENDENT_ITERATIONS                                                                    \
    for (gsize i = 0; i < n_elems; i++)                                                           \
      {                                                                                           \
        from_type x = from[i];                                                                    \
        to[i] = (convert);                                                                        \
      }                                                                                           \
  }

CAST_LOOP (f32, f32, gfloat, gfloat, x)
CAST_LOOP (f32, f64, gfloat, gdouble, (gdouble) x)
CAST_LOOP (f32, f16, gfloat, guint16, convert_f32_to_f16 (x))
CAST_LOOP (f32, bf16, gfloat, guint16, convert_f32_to_bf16 (x))
CAST_LOOP (f32, i32, gfloat, gint32, convert_f64_to_i32 ((gdouble) x))
CAST_LOOP (f32, i64, gfloat, gint64, convert_f64_to_i64 ((gdouble) x))

CAST_LOOP (f64, f32, gdouble, gfloat, (gfloat) x)
CAST_LOOP (f64, f64, gdouble, gdouble, x)
CAST_LOOP (f64, f16, gdouble, guint16, convert_f64_to_f16 (x))
CAST_LOOP (f64, bf16, gdouble, guint16, convert_f64_to_bf16 (x))
CAST_LOOP (f64, i32, gdouble, gint32, convert_f64_to_i32 (x))
CAST_LOOP (f64, i64, gdouble, gint64, convert_f64_to_i64 (x))

CAST_LOOP (f16, f32, guint16, gfloat, convert_f16_to_f32 (x))
CAST_LOOP (f16, f64, guint16, gdouble, (gdouble) convert_f16_to_f32 (x))
CAST_LOOP (f16, f16, guint16, guint16, x)
CAST_LOOP (f16, bf16, guint16, guint16, convert_f32_to_bf16 (convert_f16_to_f32 (x)))
CAST_LOOP (f16, i32, guint16, gint32, convert_f64_to_i32 ((gdouble) convert_f16_to_f32 (x)))
CAST_LOOP (f16, i64, guint16, gint64, convert_f64_to_i64 ((gdouble) convert_f16_to_f32 (x)))

CAST_LOOP (bf16, f32, guint16, gfloat, convert_bf16_to_f32 (x))
CAST_LOOP (bf16, f64, guint16, gdouble, (gdouble) convert_bf16_to_f32 (x))
CAST_LOOP (bf16, f16, guint16, guint16, convert_f32_to_f16 (convert_bf16_to_f32 (x)))
CAST_LOOP (bf16, i32, guint16, gint32, convert_f64_to_i32 ((gdouble) convert_bf16_to_f32 (x)))
CAST_LOOP (bf16, i64, guint16, gint64, convert_f64_to_i64 ((gdouble) convert_bf16_to_f32 (x)))

CAST_LOOP (i32, f32, gint32, gfloat, (gfloat) x)
CAST_LOOP (i32, f64, gint32, gdouble, (gdouble) x)
CAST_LOOP (i32, f16, gint32, guint16, convert_f64_to_f16 ((gdouble) x))
CAST_LOOP (i32, bf16, gint32, guint16, convert_f64_to_bf16 ((gdouble) x))
CAST_LOOP (i32, i32, gint32, gint32, x)
CAST_LOOP (i32, i64, gint32, gint64, (gint64) x)

CAST_LOOP (i64, f32, gint64, gfloat, (gfloat) x)
CAST_LOOP (i64, f64, gint64, gdouble, (gdouble) x)
CAST_LOOP (i64, f16, gint64, guint16, convert_f64_to_f16 (convert_i64_to_f64_odd (x)))
CAST_LOOP (i64, bf16, gint64, guint16, convert_f64_to_bf16 (convert_i64_to_f64_odd (x)))
CAST_LOOP (i64, i32, gint64, gint32, convert_i64_to_i32 (x))
CAST_LOOP (i64, i64, gint64, gint64, x)

static const CastFunc casts[TPS_DTYPE_INT64 + 1][TPS_DTYPE_INT64 + 1] = {
  [TPS_DTYPE_FLOAT32] = {
    [TPS_DTYPE_FLOAT32] = f32_to_f32,
    [TPS_DTYPE_FLOAT64] = f32_to_f64,
    [TPS_DTYPE_FLOAT16] = f32_to_f16,
    [TPS_DTYPE_BFLOAT16] = f32_to_bf16,
    [TPS_DTYPE_INT32] = f32_to_i32,
    [TPS_DTYPE_INT64] = f32_to_i64,
  },
  [TPS_DTYPE_FLOAT64] = {
    [TPS_DTYPE_FLOAT32] = f64_to_f32,
    [TPS_DTYPE_FLOAT64] = f64_to_f64,
    [TPS_DTYPE_FLOAT16] = f64_to_f16,
    [TPS_DTYPE_BFLOAT16] = f64_to_bf16,
    [TPS_DTYPE_INT32] = f64_to_i32,
    [TPS_DTYPE_INT64] = f64_to_i64,
  },
  [TPS_DTYPE_FLOAT16] = {
    [TPS_DTYPE_FLOAT32] = f16_to_f32,
    [TPS_DTYPE_FLOAT64] = f16_to_f64,
    [TPS_DTYPE_FLOAT16] = f16_to_f16,
    [TPS_DTYPE_BFLOAT16] = f16_to_bf16,
    [TPS_DTYPE_INT32] = f16_to_i32,
    [TPS_DTYPE_INT64] = f16_to_i64,
  },
  [TPS_DTYPE_BFLOAT16] = {
    [TPS_DTYPE_FLOAT32] = bf16_to_f32,
    [TPS_DTYPE_FLOAT64] = bf16_to_f64,
    [TPS_DTYPE_FLOAT16] = bf16_to_f16,
    [TPS_DTYPE_BFLOAT16] = f16_to_f16, /* copies the bits */
    [TPS_DTYPE_INT32] = bf16_to_i32,
    [TPS_DTYPE_INT64] = bf16_to_i64,
  },
  [TPS_DTYPE_INT32] = {
    [TPS_DTYPE_FLOAT32] = i32_to_f32,
    [TPS_DTYPE_FLOAT64] = i32_to_f64,
    [TPS_DTYPE_FLOAT16] = i32_to_f16,
    [TPS_DTYPE_BFLOAT16] = i32_to_bf16,
    [TPS_DTYPE_INT32] = i32_to_i32,
    [TPS_DTYPE_INT64] = i32_to_i64,
  },
  [TPS_DTYPE_INT64] = {
    [TPS_DTYPE_FLOAT32] = i64_to_f32,
    [TPS_DTYPE_FLOAT64] = i64_to_f64,
    [TPS_DTYPE_FLOAT16] = i64_to_f16,
    [TPS_DTYPE_BFLOAT16] = i64_to_bf16,
    [TPS_DTYPE_INT32] = i64_to_i32,
    [TPS_DTYPE_INT64] = i64_to_i64,
  },
};

void
tps_cpu_cast (TpsDType to_dtype, gpointer to, TpsDType from_dtype, gconstpointer from,
              gsize n_elems)
{
  g_assert (tps_dtype_is_valid (to_dtype) && tps_dtype_is_valid (from_dtype));
  if (n_elems > 0 && to != from)
    casts[from_dtype][to_dtype](to, from, n_elems);
}

void
tps_cpu_fill (TpsDType dtype, gpointer values, gdouble value, gsize n_elems)
{
  gsize size = tps_dtype_size (dtype);
  guint8 *bytes = values;
  guint64 element = 0;

  if (n_elems == 0)
    return;
  tps_cpu_cast (dtype, &element, TPS_DTYPE_FLOAT64, &value, 1);
  if (element == 0)
    {
      memset (values, 0, n_elems * size);
      return;
    }
  /* Doubles the filled part until the array is full, because memcpy() is fast for every element
   * size. */
  memcpy (bytes, &element, size);
  for (gsize n_done = 1; n_done < n_elems;)
    {
      gsize n_more = MIN (n_done, n_elems - n_done);

      memcpy (bytes + n_done * size, bytes, n_more * size);
      n_done += n_more;
    }
}
