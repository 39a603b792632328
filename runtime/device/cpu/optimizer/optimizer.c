/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/optimizer/optimizer.h"

#include <math.h>

#include "runtime/device/cpu/kernels/descent.h"
#include "runtime/device/cpu/kernels/vectorize.h"

/* Stochastic gradient descent, as torch.optim.SGD (PyTorch 1.13) without dampening and Nesterov
 * momentum:
 *
 *   d        = g + weight_decay * v
 *   velocity = momentum * velocity + d
 *   v       -= learning_rate * velocity
 *
 * State: velocity [dim]. Without momentum there is no state, and v -= learning_rate * d. The loops
 * are in runtime/device/cpu/kernels/descent.c, which the SGD of layers also uses. */
static void
sgd_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
         gsize dim)
{
  TpsSgdFactors factors = {
    .learning_rate = step->spec->learning_rate,
    .momentum = step->spec->momentum,
    .weight_decay = step->spec->weight_decay,
  };

  tps_cpu_sgd (&factors, values, gradient, step->momentum != 0 ? state : NULL, dim);
}

/* Stochastic gradient descent with Nesterov momentum, as torch.optim.SGD (PyTorch 2.14,
 * nesterov=True, foreach=False), bit for bit if products and sums are not fused. From Sutskever et
 * al., "On the importance of initialization and momentum in deep learning", ICML 2013:
 *
 *   d        = g + weight_decay * v
 *   velocity = momentum * velocity + d
 *   v       -= learning_rate * (d + momentum * velocity)
 *
 * State: velocity [dim]. */
TPS_TARGET_CLONES static void
nesterov_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
              gsize dim)
{
  gfloat learning_rate = step->learning_rate, momentum = step->momentum;
  gfloat weight_decay = step->weight_decay;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat d = weight_decay != 0 ? gradient[i] + weight_decay * values[i] : gradient[i];
      gfloat velocity = momentum * state[i] + d;

      state[i] = velocity;
      values[i] -= learning_rate * (d + momentum * velocity);
    }
}

/* Adagrad, as torch.optim.Adagrad (PyTorch 1.13) with lr_decay 0 and initial_accumulator_value 0;
 * from Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
 * Optimization", JMLR 12 (2011):
 *
 *   d   = g + weight_decay * v
 *   sum = sum + d * d
 *   v  -= learning_rate * (d / (sqrt (sum) + epsilon))
 *
 * State: sum [dim]. */
TPS_TARGET_CLONES static void
adagrad_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
             gsize dim)
{
  gfloat learning_rate = step->learning_rate;
  gfloat weight_decay = step->weight_decay;
  gfloat epsilon = step->epsilon;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat d = gradient[i] + weight_decay * values[i];
      gfloat sum = state[i] + d * d;

      state[i] = sum;
      values[i] -= learning_rate * (d / (sqrtf (sum) + epsilon));
    }
}

#define LANES 16

/* Row-wise Adagrad: one accumulator for each row instead of one for each value, as FBGEMM's
 * EXACT_ROWWISE_ADAGRAD with L2 weight decay (also used by facebookresearch's DLRM):
 *
 *   d    = g + weight_decay * v
 *   sum  = sum + (d[0]^2 + ... + d[dim - 1]^2) / dim
 *   rate = learning_rate / (sqrt (sum) + epsilon)
 *   v   -= rate * d
 *
 * Order of the squares: there are LANES partial sums, and square i is added to sum i % LANES in
 * ascending order. Then the upper half of the partial sums is added to the lower half until one is
 * left.
 *
 * State: sum [1]. */
TPS_TARGET_CLONES static void
rowwise_adagrad_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                     gfloat *state, gsize dim)
{
  gfloat weight_decay = step->weight_decay;
  gfloat squares[LANES] = { 0 };
  gsize n_whole = dim - dim % LANES;
  gfloat rate;

  for (gsize i = 0; i < n_whole; i += LANES)
    for (gsize lane = 0; lane < LANES; lane++)
      {
        gfloat d = gradient[i + lane] + weight_decay * values[i + lane];

        squares[lane] += d * d;
      }
  for (gsize i = n_whole; i < dim; i++)
    {
      gfloat d = gradient[i] + weight_decay * values[i];

      squares[i - n_whole] += d * d;
    }
  for (gsize half = LANES / 2; half > 0; half /= 2)
    for (gsize lane = 0; lane < half; lane++)
      squares[lane] += squares[lane + half];
  state[0] += squares[0] / (gfloat) dim;
  rate = step->learning_rate / (sqrtf (state[0]) + step->epsilon);
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    values[i] -= rate * (gradient[i] + weight_decay * values[i]);
}

/* Adam. If every row has a gradient at every step, it equals torch.optim.Adam (PyTorch 1.13, with
 * weight decay added to the gradient). If only some rows have a gradient, it follows
 * torch.optim.SparseAdam: the moments of the other rows do not change, and `step` counts the steps
 * of the whole table. From Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015,
 * algorithm 1:
 *
 *   d           = g + weight_decay * v
 *   m           = beta1 * m + (1 - beta1) * d
 *   s           = beta2 * s + (1 - beta2) * (d * d)
 *   correction1 = learning_rate / (1 - beta1^step)
 *   correction2 = sqrt (1 - beta2^step)
 *   v          -= correction1 * (m / (sqrt (s) / correction2 + epsilon))
 *
 * The corrections and 1 - beta are computed in double and rounded once. SparseAdam divides epsilon
 * by correction2, which matters for tiny gradients only.
 *
 * State: m [dim], s [dim]. */
TPS_TARGET_CLONES static void
adam_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
          gsize dim)
{
  gfloat beta1 = step->beta1, rest1 = (gfloat) (1 - step->spec->beta1);
  gfloat beta2 = step->beta2, rest2 = (gfloat) (1 - step->spec->beta2);
  gfloat correction1 = step->correction1, correction2 = step->correction2;
  gfloat weight_decay = step->weight_decay, epsilon = step->epsilon;
  gfloat *first = state, *second = state + dim;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat d = gradient[i] + weight_decay * values[i];
      gfloat m = beta1 * first[i] + rest1 * d;
      gfloat s = beta2 * second[i] + rest2 * (d * d);

      first[i] = m;
      second[i] = s;
      values[i] -= correction1 * (m / (sqrtf (s) / correction2 + epsilon));
    }
}

/* AdamW: Adam with decoupled weight decay, as torch.optim.AdamW (PyTorch 2.14, foreach=False), bit
 * for bit if sqrt() rounds correctly and products and sums are not fused. From Loshchilov, Hutter,
 * "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2:
 *
 *   v           = v * (1 - learning_rate * weight_decay)
 *   m           = m + (1 - beta1) * (g - m)                  if 1 - beta1 < 0.5
 *                 g - (g - m) * (1 - (1 - beta1))            otherwise
 *   s           = beta2 * s + ((1 - beta2) * g) * g
 *   correction1 = learning_rate / (1 - beta1^step)
 *   correction2 = sqrt (1 - beta2^step)
 *   v          -= (correction1 * m) / (sqrt (s) / correction2 + epsilon)
 *
 * The factor of v, 1 - beta and the corrections are computed in double and rounded once. Like ADAM,
 * a step changes only rows with a gradient, and `step` counts the steps of the whole table.
 *
 * State: m [dim], s [dim]. */
TPS_TARGET_CLONES static void
adamw_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
           gsize dim)
{
  const TpsOptimizerSpec *spec = step->spec;
  gfloat keep = (gfloat) (1 - spec->learning_rate * spec->weight_decay);
  gfloat weight = (gfloat) (1 - spec->beta1), rest2 = (gfloat) (1 - spec->beta2);
  gfloat beta2 = step->beta2, epsilon = step->epsilon;
  gfloat correction1 = step->correction1, correction2 = step->correction2;
  gfloat *first = state, *second = state + dim;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat g = gradient[i], to_go = g - first[i];
      gfloat m = weight < 0.5f ? first[i] + weight * to_go : g - to_go * (1 - weight);
      gfloat s = second[i] * beta2 + rest2 * g * g;

      first[i] = m;
      second[i] = s;
      values[i] = values[i] * keep - correction1 * m / (sqrtf (s) / correction2 + epsilon);
    }
}

/* FTRL-Proximal, per coordinate: McMahan et al., "Ad Click Prediction: a View from the Trenches",
 * KDD 2013, algorithm 1, with alpha = learning_rate:
 *
 *   d     = g + weight_decay * v
 *   sigma = (sqrt (n + d * d) - sqrt (n)) / alpha
 *   z     = (z + d) - sigma * v
 *   n     = n + d * d
 *   v     = 0                                                          where |z| <= l1
 *           (sign (z) * l1 - z) / ((beta + sqrt (n)) / alpha + l2)     elsewhere
 *
 * The paper stores only z and n and computes v on demand. Here lookups read v, so it is computed
 * after each update.
 *
 * Initial values: in the paper v is a function of z and n, so z = n = 0 implies v = 0. A row with a
 * different initial value and n = 0 gets the z that gives this v:
 *
 *   z = - (v * (beta / alpha + l2) + sign (v) * l1)
 *
 * Its first update then continues from v: without l1 and l2, v -= alpha / (beta + |d|) * d. Rows of
 * zeros behave as in the paper. (TensorFlow leaves z at 0 in this case, and its first update
 * shrinks v towards 0.) While every d of a value has been 0, n is 0 and the value does not change.
 *
 * State: z [dim], n [dim]. */
TPS_TARGET_CLONES static void
ftrl_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
          gsize dim)
{
  gfloat alpha = step->learning_rate, beta = step->beta;
  gfloat l1 = step->l1, l2 = step->l2, weight_decay = step->weight_decay;
  gfloat first_slope = beta / alpha + l2;
  gfloat *zs = state, *ns = state + dim;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat v = values[i], n = ns[i], z = zs[i];
      gfloat d = gradient[i] + weight_decay * v;
      gfloat new_n = n + d * d;
      gfloat sigma = (sqrtf (new_n) - sqrtf (n)) / alpha;
      gfloat z_of_v = -(v * first_slope + (v == 0 ? 0 : copysignf (l1, v)));
      gfloat new_z = ((n == 0 ? z_of_v : z) + d) - sigma * v;
      gfloat new_v = (copysignf (l1, new_z) - new_z) / ((beta + sqrtf (new_n)) / alpha + l2);

      new_v = fabsf (new_z) <= l1 ? 0 : new_v;
      zs[i] = new_z;
      ns[i] = new_n;
      values[i] = new_n == 0 ? v : new_v;
    }
}

#define ROW_FUNCTION(NAME, name, number) [number] = name##_row,

static TpsUpdateRow *const functions[] = { TPS_OPTIMIZERS (ROW_FUNCTION) };

/* Returns base^exponent. pow() is not used, because its last bit differs between CPUs. */
static gdouble
power (gdouble base, gint64 exponent)
{
  gdouble product = 1;

  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1)
      product *= base;
  return product;
}

void
tps_cpu_optimizer_step_init (TpsOptimizerStep *step, const TpsOptimizerSpec *spec, gint64 number)
{
  g_assert (number >= 1);
  *step = (TpsOptimizerStep) {
    .spec = spec,
    .step = number,
    .learning_rate = (gfloat) spec->learning_rate,
    .momentum = (gfloat) spec->momentum,
    .weight_decay = (gfloat) spec->weight_decay,
    .epsilon = (gfloat) spec->epsilon,
    .beta1 = (gfloat) spec->beta1,
    .beta2 = (gfloat) spec->beta2,
    .l1 = (gfloat) spec->l1,
    .l2 = (gfloat) spec->l2,
    .beta = (gfloat) spec->beta,
  };
  if (!tps_optimizer_counts_steps (spec))
    return;
  step->correction1 = (gfloat) (spec->learning_rate / (1 - power (spec->beta1, number)));
  step->correction2 = (gfloat) sqrt (1 - power (spec->beta2, number));
}

TpsUpdateRow *
tps_cpu_optimizer_get (TpsOptimizerKind kind)
{
  g_assert ((gsize) kind < G_N_ELEMENTS (functions) && functions[kind] != NULL);
  return functions[kind];
}
