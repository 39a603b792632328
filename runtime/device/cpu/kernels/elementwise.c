/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Casts, sums of gradients and their division. There is one loop for each operation and type (for a
 * cast, pair of types), and tables of these loops.
 *
 * If a float can represent a factor, the loops use it as a float. The results have the same bits as
 * a computation in double that is rounded at the end. The product of two floats is exact in a
 * double. Their quotient, rounded to a double, never lies on a midpoint between floats unless the
 * exact quotient does. */

#include "runtime/device/cpu/kernels/elementwise.h"

#include <math.h>

#include "runtime/device/cpu/kernels/convert.h"

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

#define bf16_to_bf16 f16_to_f16 /* copies the bits */
#define CASTS_FROM(name)                                                        \
  {                                                                             \
    [TPS_DTYPE_FLOAT32] = name##_to_f32, [TPS_DTYPE_FLOAT64] = name##_to_f64,   \
    [TPS_DTYPE_FLOAT16] = name##_to_f16, [TPS_DTYPE_BFLOAT16] = name##_to_bf16, \
    [TPS_DTYPE_INT32] = name##_to_i32, [TPS_DTYPE_INT64] = name##_to_i64,       \
  }

static const CastFunc casts[TPS_DTYPE_INT64 + 1][TPS_DTYPE_INT64 + 1] = {
  [TPS_DTYPE_FLOAT32] = CASTS_FROM (f32), [TPS_DTYPE_FLOAT64] = CASTS_FROM (f64),
  [TPS_DTYPE_FLOAT16] = CASTS_FROM (f16), [TPS_DTYPE_BFLOAT16] = CASTS_FROM (bf16),
  [TPS_DTYPE_INT32] = CASTS_FROM (i32),   [TPS_DTYPE_INT64] = CASTS_FROM (i64),
};

typedef void (*LoopFunc) (gpointer out, gconstpointer in, gdouble factor, gsize n_elems);

/* Defines a loop. `statement` may use out[i], the element x and the factor f. */
#define LOOP(name, out_type, in_type, factor_type, statement)                                   \
  TPS_TARGET_CLONES static void name (gpointer out_data, gconstpointer in_data, gdouble factor, \
                                      gsize n_elems)                                            \
  {                                                                                             \
    out_type *out = out_data;                                                                   \
    const in_type *in = in_data;                                                                \
    const factor_type f = (factor_type) factor;                                                 \
                                                                                                \
    TPS_INDEPENDENT_ITERATIONS                                                                  \
    for (gsize i = 0; i < n_elems; i++)                                                         \
      {                                                                                         \
        in_type x = in[i];                                                                      \
        statement;                                                                              \
      }                                                                                         \
    (void) f;                                                                                   \
  }

#define IDENTITY(x) (x)

typedef void (*AddFunc) (gpointer out, gconstpointer a, gconstpointer b, gsize n_elems);

#define ADD_LOOP(elem, elem_type, sum_type, load)                                        \
  TPS_TARGET_CLONES static void add_two_##elem (gpointer out_data, gconstpointer a_data, \
                                                gconstpointer b_data, gsize n_elems)     \
  {                                                                                      \
    sum_type *out = out_data;                                                            \
    const elem_type *a = a_data;                                                         \
    const elem_type *b = b_data;                                                         \
                                                                                         \
    TPS_INDEPENDENT_ITERATIONS                                                           \
    for (gsize i = 0; i < n_elems; i++)                                                  \
      out[i] = load (a[i]) + load (b[i]);                                                \
  }

/* load() converts exactly to the type of the sum. The wide loops compute a product in double and
 * round it once. */
#define SUM_LOOPS(elem, elem_type, sum_type, load)                          \
  LOOP (add_##elem, sum_type, elem_type, gdouble, out[i] += load (x))       \
  LOOP (scale_##elem, sum_type, elem_type, sum_type, out[i] = f * load (x)) \
  LOOP (scale_add_##elem, sum_type, elem_type, sum_type, out[i] += f * load (x))

#define WIDE_SUM_LOOPS(elem, elem_type, load)                                                      \
  LOOP (scale_wide_##elem, gfloat, elem_type, gdouble, out[i] = (gfloat) (f * (gdouble) load (x))) \
  LOOP (scale_add_wide_##elem, gfloat, elem_type, gdouble,                                         \
        out[i] += (gfloat) (f * (gdouble) load (x)))

ADD_LOOP (f32, gfloat, gfloat, IDENTITY)
ADD_LOOP (f64, gdouble, gdouble, IDENTITY)
ADD_LOOP (f16, guint16, gfloat, convert_f16_to_f32)
ADD_LOOP (bf16, guint16, gfloat, convert_bf16_to_f32)

SUM_LOOPS (f32, gfloat, gfloat, IDENTITY)
SUM_LOOPS (f64, gdouble, gdouble, IDENTITY)
SUM_LOOPS (f16, guint16, gfloat, convert_f16_to_f32)
SUM_LOOPS (bf16, guint16, gfloat, convert_bf16_to_f32)
WIDE_SUM_LOOPS (f32, gfloat, IDENTITY)
WIDE_SUM_LOOPS (f16, guint16, convert_f16_to_f32)
WIDE_SUM_LOOPS (bf16, guint16, convert_bf16_to_f32)

LOOP (divide_f32, gfloat, gfloat, gfloat, out[i] = x / f)
LOOP (divide_wide_f32, gfloat, gfloat, gdouble, out[i] = (gfloat) ((gdouble) x / f))
LOOP (divide_f64, gdouble, gdouble, gdouble, out[i] = x / f)
LOOP (divide_f16, guint16, gfloat, gdouble, out[i] = convert_f64_to_f16 ((gdouble) x / f))
LOOP (divide_bf16, guint16, gfloat, gdouble, out[i] = convert_f64_to_bf16 ((gdouble) x / f))

/* The wide loops are used for factors that a float cannot represent. */
static const struct
{
  TpsDType sum_dtype;
  AddFunc add_two;
  LoopFunc add, scale, scale_wide, scale_add, scale_add_wide, divide, divide_wide;
} loops[] = {
  [TPS_DTYPE_FLOAT32] = { TPS_DTYPE_FLOAT32, add_two_f32, add_f32, scale_f32, scale_wide_f32,
                          scale_add_f32, scale_add_wide_f32, divide_f32, divide_wide_f32 },
  [TPS_DTYPE_FLOAT64] = { TPS_DTYPE_FLOAT64, add_two_f64, add_f64, scale_f64, scale_f64,
                          scale_add_f64, scale_add_f64, divide_f64, divide_f64 },
  [TPS_DTYPE_FLOAT16] = { TPS_DTYPE_FLOAT32, add_two_f16, add_f16, scale_f16, scale_wide_f16,
                          scale_add_f16, scale_add_wide_f16, divide_f16, divide_f16 },
  [TPS_DTYPE_BFLOAT16] = { TPS_DTYPE_FLOAT32, add_two_bf16, add_bf16, scale_bf16, scale_wide_bf16,
                           scale_add_bf16, scale_add_wide_bf16, divide_bf16, divide_bf16 },
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

static gboolean
is_exact_f32 (gdouble factor)
{
  return (gdouble) (gfloat) factor == factor;
}

TpsDType
tps_cpu_sum_dtype (TpsDType dtype)
{
  g_assert (tps_dtype_is_floating (dtype));
  return loops[dtype].sum_dtype;
}

void
tps_cpu_add (TpsDType dtype, gpointer sum, gconstpointer a, gconstpointer b, gsize n_elems)
{
  g_assert (tps_dtype_is_floating (dtype));
  loops[dtype].add_two (sum, a, b, n_elems);
}

void
tps_cpu_accumulate (TpsDType dtype, gpointer sum, gconstpointer gradient, gsize n_elems)
{
  g_assert (tps_dtype_is_floating (dtype));
  loops[dtype].add (sum, gradient, 1, n_elems);
}

void
tps_cpu_scale (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight, gsize n_elems)
{
  g_assert (tps_dtype_is_floating (dtype));
  (is_exact_f32 (weight) ? loops[dtype].scale : loops[dtype].scale_wide) (sum, gradient, weight,
                                                                          n_elems);
}

void
tps_cpu_scale_accumulate (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                          gsize n_elems)
{
  g_assert (tps_dtype_is_floating (dtype));
  (is_exact_f32 (weight) ? loops[dtype].scale_add : loops[dtype].scale_add_wide) (sum, gradient,
                                                                                  weight, n_elems);
}

/* Returns TRUE if 1 / divisor is exact and normal, also as a float. x / divisor and x * (1 /
 * divisor) then round the same number, and the product is several times faster. */
static gboolean
has_exact_reciprocal (gdouble divisor)
{
  gint exponent;

  return frexp (divisor, &exponent) == 0.5 && ABS (exponent) < 120;
}

void
tps_cpu_divide (TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor, gsize n_elems)
{
  g_assert (tps_dtype_is_floating (dtype));
  if (loops[dtype].sum_dtype == dtype && has_exact_reciprocal (divisor))
    loops[dtype].scale (average, sum, 1 / divisor, n_elems);
  else
    (is_exact_f32 (divisor) ? loops[dtype].divide : loops[dtype].divide_wide) (average, sum,
                                                                               divisor, n_elems);
}
