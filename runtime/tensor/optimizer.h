/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Optimizers: their names, their parameters and their state. The arithmetic of each optimizer, with
 * its formula and source, is in a file of its own in runtime/device/cpu/optimizer/.
 *
 * All optimizers work on rows: `dim` values that are updated together with the state of the row. A
 * dense parameter [n, m] is treated as n rows of m; a parameter of any other rank is treated as one
 * row.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The numeric values are part of the wire format. */
typedef enum
{
  TPS_OPTIMIZER_SGD = 1,
  TPS_OPTIMIZER_ADAGRAD = 2,
  TPS_OPTIMIZER_ROWWISE_ADAGRAD = 3,
  TPS_OPTIMIZER_ADAM = 4,
  TPS_OPTIMIZER_FTRL = 5,
} TpsOptimizerKind;

/* The options given by a caller. NAN means that a value is unset and that the optimizer's default
 * applies; learning_rate has no default. */
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

/* Returns a specification with this kind and learning rate. All other values are unset. */
TpsOptimizerSpec tps_optimizer_spec (TpsOptimizerKind kind, gdouble learning_rate);

/* Fills in the defaults and checks the specification: the kind must be known, and values must be
 * finite and in range. A value that the kind does not use must be unset or 0. `what` is the prefix
 * of error messages. Errors: TPS_ERROR_INVALID_ARGUMENT, "`what`.momentum: …"; `spec` has not
 * changed then. Thread: any. */
gboolean tps_optimizer_spec_resolve (TpsOptimizerSpec *spec, const gchar *what, GError **error);

/* Returns TRUE if two resolved specifications are equal. */
gboolean tps_optimizer_spec_equal (const TpsOptimizerSpec *a, const TpsOptimizerSpec *b);

/* Returns the name on the wire, such as "SGD", or NULL for an unknown kind. Static. */
const gchar *tps_optimizer_kind_name (TpsOptimizerKind kind);

/* Finds a kind by its name on the wire, ignoring case and accepting '-' for '_'. Errors:
 * TPS_ERROR_NOT_FOUND; the message lists the known names. */
gboolean tps_optimizer_kind_find (const gchar *name, TpsOptimizerKind *kind, GError **error);

/* Returns the number of floats of state for a row of `dim` values. The state must be zero before
 * the first update. `spec` must be resolved. */
gsize tps_optimizer_state_per_row (const TpsOptimizerSpec *spec, gsize dim);

/* Returns TRUE if an update depends on the number of earlier steps (`step` of
 * TpsDeviceOps.update_rows). */
gboolean tps_optimizer_counts_steps (const TpsOptimizerSpec *spec);

G_END_DECLS
