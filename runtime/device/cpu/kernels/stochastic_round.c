/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/kernels/stochastic_round.h"

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/stochastic_bits.h"

TPS_TARGET_CLONES static void
round_to_f16 (guint16 *to, const gfloat *from, gsize dim, guint64 row_key)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize c = 0; c < dim; c++)
    to[c] = stochastic_f32_to_f16 (from[c], stochastic_bits (row_key, c));
}

TPS_TARGET_CLONES static void
round_to_bf16 (guint16 *to, const gfloat *from, gsize dim, guint64 row_key)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize c = 0; c < dim; c++)
    to[c] = stochastic_f32_to_bf16 (from[c], stochastic_bits (row_key, c));
}

void
tps_cpu_round_row (TpsDType dtype, gpointer to, const gfloat *from, gsize dim,
                   const TpsRowRounding *rounding, gint64 step, gsize row)
{
  gint64 number = rounding->first + (gint64) row * rounding->stride;
  guint64 row_key;

  g_assert (dtype == TPS_DTYPE_FLOAT16 || dtype == TPS_DTYPE_BFLOAT16);
  if (!rounding->is_stochastic)
    {
      tps_cpu_cast (dtype, to, TPS_DTYPE_FLOAT32, from, dim);
      return;
    }
  row_key = stochastic_row_key (stochastic_step_key (rounding->seed, step), number);
  if (dtype == TPS_DTYPE_FLOAT16)
    round_to_f16 (to, from, dim, row_key);
  else
    round_to_bf16 (to, from, dim, row_key);
}
