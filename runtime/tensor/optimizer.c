/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/optimizer.h"

#include <float.h>
#include <math.h>

#include "runtime/base/error.h"

typedef enum
{
  FROM_ZERO,
  ABOVE_ZERO,
  BELOW_ONE, /* and at least 0 */
} Range;

/* Numbers that a row names: 1 + the index in tps_optimizer_numbers[]. */
enum
{
  NO_NUMBER,
  LEARNING_RATE,
  MOMENTUM,
};

#define NUMBER(name)                               \
  {                                                \
#name, G_STRUCT_OFFSET(TpsOptimizerSpec, name) \
  }

const TpsNumberField tps_optimizer_numbers[TPS_OPTIMIZER_N_NUMBERS] = {
  NUMBER (learning_rate), NUMBER (momentum), NUMBER (weight_decay), NUMBER (epsilon),
  NUMBER (beta1),         NUMBER (beta2),    NUMBER (l1),           NUMBER (l2),
  NUMBER (beta),
};

/* Unlike in PyTorch, epsilon must not be 0, because a gradient of 0 would then give 0 / 0. */
static const Range ranges[TPS_OPTIMIZER_N_NUMBERS] = {
  FROM_ZERO, FROM_ZERO, FROM_ZERO, ABOVE_ZERO, BELOW_ONE,
  BELOW_ONE, FROM_ZERO, FROM_ZERO, FROM_ZERO,
};

typedef struct
{
  const gchar *name;
  /* The defaults of the numbers. NAN: the optimizer does not use the number; but the learning rate
   * has no default. */
  gdouble defaults[TPS_OPTIMIZER_N_NUMBERS];
  const gchar *state[TPS_STATE_MAX_PARTS]; /* as PyTorch calls it */
  guint state_needs;                       /* there is no state if this number is 0 */
  guint above_zero;                        /* this number must not be 0 */
  gboolean counts_steps;
  gboolean mixes_row; /* each part of the state is one float */
} Row;

/* clang-format off */
static const Row rows[] = {
  /*                                  rate mom. decay eps.   beta1 beta2  l1   l2   beta */
  [TPS_OPTIMIZER_SGD] = {
    .name = "SGD", .defaults =      { NAN,   0,   0,  NAN,   NAN, NAN,   NAN, NAN, NAN },
    .state = { "momentum_buffer" }, .state_needs = MOMENTUM },
  [TPS_OPTIMIZER_ADAGRAD] = {
    .name = "ADAGRAD", .defaults =  { NAN, NAN,   0,  1e-10, NAN, NAN,   NAN, NAN, NAN },
    .state = { "sum" } },
  [TPS_OPTIMIZER_ROWWISE_ADAGRAD] = {
    .name = "ROWWISE_ADAGRAD", .defaults =
                                    { NAN, NAN,   0,  1e-10, NAN, NAN,   NAN, NAN, NAN },
    .state = { "sum" }, .mixes_row = TRUE },
  [TPS_OPTIMIZER_ADAM] = {
    .name = "ADAM", .defaults =     { NAN, NAN,   0,  1e-8,  0.9, 0.999, NAN, NAN, NAN },
    .state = { "exp_avg", "exp_avg_sq" }, .counts_steps = TRUE },
  [TPS_OPTIMIZER_FTRL] = {
    .name = "FTRL", .defaults =     { NAN, NAN,   0,  NAN,   NAN, NAN,     0,   0,   1 },
    .state = { "z", "n" }, .above_zero = LEARNING_RATE }, /* divides by it */
  [TPS_OPTIMIZER_ADAMW] = {
    .name = "ADAMW", .defaults =    { NAN, NAN, 0.01, 1e-8,  0.9, 0.999, NAN, NAN, NAN },
    .state = { "exp_avg", "exp_avg_sq" }, .counts_steps = TRUE },
  [TPS_OPTIMIZER_NESTEROV] = {
    .name = "NESTEROV", .defaults = { NAN, 0.9,   0,  NAN,   NAN, NAN,   NAN, NAN, NAN },
    .state = { "momentum_buffer" }, .above_zero = MOMENTUM },
};
/* clang-format on */

G_STATIC_ASSERT (G_N_ELEMENTS (rows) == TPS_N_OPTIMIZERS + 1);

static gboolean
is_known (TpsOptimizerKind kind)
{
  return (gint) kind >= 1 && (gint) kind < (gint) G_N_ELEMENTS (rows);
}

gdouble *
tps_optimizer_spec_number (TpsOptimizerSpec *spec, guint i)
{
  return &G_STRUCT_MEMBER (gdouble, spec, tps_optimizer_numbers[i].offset);
}

TpsOptimizerSpec
tps_optimizer_spec (TpsOptimizerKind kind, gdouble learning_rate)
{
  TpsOptimizerSpec spec = { .kind = kind };

  for (guint i = 0; i < TPS_OPTIMIZER_N_NUMBERS; i++)
    *tps_optimizer_spec_number (&spec, i) = i + 1 == LEARNING_RATE ? learning_rate : NAN;
  return spec;
}

/* -- checks -- */

static gboolean
fail (const gchar *what, const gchar *field, gdouble value, const gchar *expected, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, %s", what, field, value,
                   expected);
}

/* Checks the value after rounding it to FLOAT32, the type of the optimizers' arithmetic. */
static gboolean
check_range (const gchar *what, const gchar *field, gdouble value, Range range, GError **error)
{
  gfloat rounded = (gfloat) value;

  if (range == FROM_ZERO && !(rounded >= 0 && rounded <= FLT_MAX))
    return fail (what, field, value, "expected a finite FLOAT32 from 0 up", error);
  if (range == ABOVE_ZERO && !(rounded > 0 && rounded <= FLT_MAX))
    return fail (what, field, value, "expected a finite FLOAT32 above 0", error);
  if (range == BELOW_ONE && !(rounded >= 0 && rounded < 1))
    return fail (what, field, value, "expected a FLOAT32 from 0 up and below 1", error);
  return TRUE;
}

static gboolean
resolve_number (TpsOptimizerSpec *spec, guint i, const gchar *what, GError **error)
{
  const Row *row = &rows[spec->kind];
  const gchar *name = tps_optimizer_numbers[i].name;
  gdouble *value = tps_optimizer_spec_number (spec, i);

  if (i + 1 == LEARNING_RATE && isnan (*value))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: missing, or not a number", what,
                     name);
  if (i + 1 != LEARNING_RATE && isnan (row->defaults[i]))
    {
      if (!isnan (*value) && *value != 0)
        return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, but %s has none", what,
                         name, *value, row->name);
      *value = 0;
      return TRUE;
    }
  if (isnan (*value))
    *value = row->defaults[i];
  return check_range (what, name, *value, row->above_zero == i + 1 ? ABOVE_ZERO : ranges[i], error);
}

gboolean
tps_optimizer_spec_resolve (TpsOptimizerSpec *spec, const gchar *what, GError **error)
{
  TpsOptimizerSpec resolved = *spec;

  if (!is_known (spec->kind))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s.kind: unknown optimizer %d", what,
                     (gint) spec->kind);
  for (guint i = 0; i < TPS_OPTIMIZER_N_NUMBERS; i++)
    if (!resolve_number (&resolved, i, what, error))
      return FALSE;
  *spec = resolved;
  return TRUE;
}

gboolean
tps_optimizer_spec_equal (const TpsOptimizerSpec *a, const TpsOptimizerSpec *b)
{
  TpsOptimizerSpec values[] = { *a, *b };

  for (guint i = 0; i < TPS_OPTIMIZER_N_NUMBERS; i++)
    if (*tps_optimizer_spec_number (&values[0], i) != *tps_optimizer_spec_number (&values[1], i))
      return FALSE;
  return a->kind == b->kind;
}

/* -- names -- */

const gchar *
tps_optimizer_kind_name (TpsOptimizerKind kind)
{
  return is_known (kind) ? rows[kind].name : NULL;
}

gboolean
tps_optimizer_kind_find (const gchar *name, TpsOptimizerKind *kind, GError **error)
{
  g_autofree gchar *spelled = g_strdelimit (g_strdup (name), "-", '_');
  g_autoptr (GString) known = g_string_new (NULL);

  for (gint i = 1; i < (gint) G_N_ELEMENTS (rows); i++)
    {
      if (g_ascii_strcasecmp (spelled, rows[i].name) == 0)
        {
          *kind = (TpsOptimizerKind) i;
          return TRUE;
        }
      g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", rows[i].name);
    }
  return tps_fail (error, TPS_ERROR_NOT_FOUND, "no optimizer \"%s\"; known: %s", name, known->str);
}

/* -- state -- */

guint
tps_state_get_parts (const TpsOptimizerSpec *spec, gsize dim,
                     TpsStatePart parts[TPS_STATE_MAX_PARTS])
{
  const Row *row = &rows[spec->kind];
  TpsOptimizerSpec copy = *spec;
  guint n = 0;

  if (row->state_needs != NO_NUMBER
      && *tps_optimizer_spec_number (&copy, row->state_needs - 1) == 0)
    return 0;
  for (; n < TPS_STATE_MAX_PARTS && row->state[n] != NULL; n++)
    parts[n] = (TpsStatePart) { row->state[n], row->mixes_row ? 1 : dim };
  return n;
}

gsize
tps_optimizer_state_per_row (const TpsOptimizerSpec *spec, gsize dim)
{
  TpsStatePart parts[TPS_STATE_MAX_PARTS];
  guint n = tps_state_get_parts (spec, dim, parts);

  return n > 0 ? n * parts[0].n_columns : 0;
}

gboolean
tps_optimizer_counts_steps (const TpsOptimizerSpec *spec)
{
  return rows[spec->kind].counts_steps;
}

gboolean
tps_optimizer_mixes_row (const TpsOptimizerSpec *spec)
{
  return rows[spec->kind].mixes_row;
}
