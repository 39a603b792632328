/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Optimizers: their names, their numbers and their state. An optimizer is one entry of
 * TPS_OPTIMIZERS (thriftps/tables.h), one row of the table in optimizer.c, which log, snapshots,
 * JSON and checks read, and a formula for each device: runtime/device/cpu/optimizer/ (which names
 * the source) and cuda/optimizer/.
 *
 * All work on rows: `dim` values that are updated together with the state of the row. A dense
 * parameter [n, m] is n rows of m; one of any other rank is one row. */

#pragma once

#include <thriftps/tables.h>

G_BEGIN_DECLS

#define TPS_OPTIMIZER_COUNT(NAME, name, number) +1
#define TPS_N_OPTIMIZERS (0 TPS_OPTIMIZERS (TPS_OPTIMIZER_COUNT))

/* A member of type gdouble of a struct. NAN = unset. */
typedef struct
{
  const gchar *name;
  gsize offset;
} TpsNumberField;

/* The numbers of TpsOptimizerSpec, in the order of the wire. */
#define TPS_OPTIMIZER_N_NUMBERS 9
extern const TpsNumberField tps_optimizer_numbers[TPS_OPTIMIZER_N_NUMBERS];

/* Returns the address of a number of `spec`; `i` is its index in tps_optimizer_numbers[]. */
gdouble *tps_optimizer_spec_number (TpsOptimizerSpec *spec, guint i);

/* Fills in the defaults and checks: a known kind, finite values in range; a value that the kind
 * does not use must be unset or 0. Errors: INVALID_ARGUMENT, "`what`.momentum: …", without a
 * change. Thread: any. */
gboolean tps_optimizer_spec_resolve (TpsOptimizerSpec *spec, const gchar *what, GError **error);

gboolean tps_optimizer_spec_equal (const TpsOptimizerSpec *a, const TpsOptimizerSpec *b);

/* Returns the name on the wire, such as "SGD", or NULL for an unknown kind. Static. */
const gchar *tps_optimizer_kind_name (TpsOptimizerKind kind);

/* Finds a kind by its name on the wire, ignoring case and accepting '-' for '_'. Errors:
 * TPS_ERROR_NOT_FOUND; the message lists the known names. */
gboolean tps_optimizer_kind_find (const gchar *name, TpsOptimizerKind *kind, GError **error);

/* A part of the state that an optimizer keeps for each row: `n_columns` floats. */
typedef struct
{
  const gchar *name; /* static, as in PyTorch: "exp_avg" */
  gsize n_columns;
} TpsStatePart;

#define TPS_STATE_MAX_PARTS 2

/* Lists the parts in their order in the state of a row of `dim` values. Returns the number of
 * parts. `spec` must be resolved. */
guint tps_state_get_parts (const TpsOptimizerSpec *spec, gsize dim,
                           TpsStatePart parts[TPS_STATE_MAX_PARTS]);

/* Returns the number of floats of state for a row of `dim` values: all parts together. The state
 * must be zero before the first update. `spec` must be resolved. */
gsize tps_optimizer_state_per_row (const TpsOptimizerSpec *spec, gsize dim);

/* Returns TRUE if an update depends on the number of earlier steps (`step` of
 * TpsDeviceOps.update_rows). */
gboolean tps_optimizer_counts_steps (const TpsOptimizerSpec *spec);

/* Returns TRUE if a value's update depends on the other values of its row. */
gboolean tps_optimizer_mixes_row (const TpsOptimizerSpec *spec);

G_END_DECLS
