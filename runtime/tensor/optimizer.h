/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Optimizers: what they are called, what they need to know, and what they remember. The arithmetic
 * of each, its formula and source stand in a file of its own in runtime/device/cpu/optimizer/.
 *
 * All of them work on rows: `dim` values that are updated together, with the state of that row. A
 * dense parameter
 * [n, m] is n rows of m (anything else is one row); an embedding table is what it is.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The numbers are those of the wire. */
typedef enum
{
  TPS_OPTIMIZER_SGD = 1,
  TPS_OPTIMIZER_ADAGRAD = 2,
  TPS_OPTIMIZER_ROWWISE_ADAGRAD = 3,
  TPS_OPTIMIZER_ADAM = 4,
  TPS_OPTIMIZER_FTRL = 5,
} TpsOptimizerKind;

/* What a caller asks for; NAN = not said, so that the optimizer's own default holds. */
typedef struct
{
  TpsOptimizerKind kind;
  gdouble learning_rate;
  gdouble momentum;
  gdouble weight_decay;
  gdouble epsilon;
  gdouble beta1;
  gdouble beta2;
  gdouble l1;
  gdouble l2;
  gdouble beta;
} TpsOptimizerSpec;

/* Everything not said, of this kind and learning rate. */
TpsOptimizerSpec tps_optimizer_spec (TpsOptimizerKind kind, gdouble learning_rate);

/* Fills in the defaults, and checks: kind known, values finite and in their ranges, none given that
 * the kind does not use (unless 0). Errors: TPS_ERROR_INVALID_ARGUMENT, "`what`.momentum: …".
 * Thread: any. */
gboolean tps_optimizer_spec_resolve (TpsOptimizerSpec *spec, const gchar *what, GError **error);

/* Of resolved ones. */
gboolean tps_optimizer_spec_equal (const TpsOptimizerSpec *a, const TpsOptimizerSpec *b);

/* "SGD", … as on the wire; static. NULL for an unknown kind. */
const gchar *tps_optimizer_kind_name (TpsOptimizerKind kind);

/* By that name, in any case, '-' for '_'. Errors: TPS_ERROR_NOT_FOUND, the message lists the
 * known. */
gboolean tps_optimizer_kind_find (const gchar *name, TpsOptimizerKind *kind, GError **error);

/* Floats of state that a row of `dim` values needs, zero before its first update. `spec` is
 * resolved. */
gsize tps_optimizer_state_per_row (const TpsOptimizerSpec *spec, gsize dim);

/* Whether an update depends on how many steps were taken before (`step` below). */
gboolean tps_optimizer_counts_steps (const TpsOptimizerSpec *spec);

G_END_DECLS
