/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/optimizer.h"

#include <float.h>
#include <math.h>

#include "runtime/base/error.h"

/* The default of a field that the optimizer does not use. */
#define UNUSED NAN

typedef enum
{
  FROM_ZERO,
  ABOVE_ZERO,
  BELOW_ONE, /* and at least 0 */
} Range;

typedef struct
{
  const gchar *name;
  gsize offset;
  Range range;
} Field;

/* All fields except the learning rate, in wire order. Unlike in PyTorch, epsilon must not be 0,
 * because a gradient of 0 would then give 0 / 0. */
static const Field fields[] = {
  { "momentum", G_STRUCT_OFFSET (TpsOptimizerSpec, momentum), FROM_ZERO },
  { "weight_decay", G_STRUCT_OFFSET (TpsOptimizerSpec, weight_decay), FROM_ZERO },
  { "epsilon", G_STRUCT_OFFSET (TpsOptimizerSpec, epsilon), ABOVE_ZERO },
  { "beta1", G_STRUCT_OFFSET (TpsOptimizerSpec, beta1), BELOW_ONE },
  { "beta2", G_STRUCT_OFFSET (TpsOptimizerSpec, beta2), BELOW_ONE },
  { "l1", G_STRUCT_OFFSET (TpsOptimizerSpec, l1), FROM_ZERO },
  { "l2", G_STRUCT_OFFSET (TpsOptimizerSpec, l2), FROM_ZERO },
  { "beta", G_STRUCT_OFFSET (TpsOptimizerSpec, beta), FROM_ZERO },
};

static const struct
{
  const gchar *name;
  /* the defaults, in the order of fields[] */
  gdouble momentum, weight_decay, epsilon, beta1, beta2, l1, l2, beta;
} kinds[] = {
  [TPS_OPTIMIZER_SGD] = { "SGD", 0, 0, UNUSED, UNUSED, UNUSED, UNUSED, UNUSED, UNUSED },
  [TPS_OPTIMIZER_ADAGRAD] = { "ADAGRAD", UNUSED, 0, 1e-10, UNUSED, UNUSED, UNUSED, UNUSED, UNUSED },
  [TPS_OPTIMIZER_ROWWISE_ADAGRAD] = { "ROWWISE_ADAGRAD", UNUSED, 0, 1e-10, UNUSED, UNUSED, UNUSED,
                                      UNUSED, UNUSED },
  [TPS_OPTIMIZER_ADAM] = { "ADAM", UNUSED, 0, 1e-8, 0.9, 0.999, UNUSED, UNUSED, UNUSED },
  [TPS_OPTIMIZER_FTRL] = { "FTRL", UNUSED, 0, UNUSED, UNUSED, UNUSED, 0, 0, 1 },
};

static gboolean
is_known (TpsOptimizerKind kind)
{
  return (gint) kind >= TPS_OPTIMIZER_SGD && (gint) kind < (gint) G_N_ELEMENTS (kinds);
}

/* Relies on the defaults of a kind being consecutive members. */
static gdouble
default_of (TpsOptimizerKind kind, gsize field)
{
  return (&kinds[kind].momentum)[field];
}

static gdouble *
value_of (TpsOptimizerSpec *spec, gsize field)
{
  return &G_STRUCT_MEMBER (gdouble, spec, fields[field].offset);
}

TpsOptimizerSpec
tps_optimizer_spec (TpsOptimizerKind kind, gdouble learning_rate)
{
  TpsOptimizerSpec spec = { .kind = kind, .learning_rate = learning_rate };

  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    *value_of (&spec, i) = NAN;
  return spec;
}

/* -- checks -- */

static gboolean
fail (const gchar *what, const gchar *field, gdouble value, const gchar *expected, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, %s", what, field, value,
               expected);
  return FALSE;
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
check_learning_rate (const TpsOptimizerSpec *spec, const gchar *what, GError **error)
{
  if (isnan (spec->learning_rate))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "%s.learning_rate: missing, or not a number", what);
      return FALSE;
    }
  /* FTRL divides by the learning rate, which must therefore be positive. */
  return check_range (what, "learning_rate", spec->learning_rate,
                      spec->kind == TPS_OPTIMIZER_FTRL ? ABOVE_ZERO : FROM_ZERO, error);
}

static gboolean
resolve_field (TpsOptimizerSpec *spec, gsize field, const gchar *what, GError **error)
{
  gdouble *value = value_of (spec, field);
  gdouble its_default = default_of (spec->kind, field);

  if (isnan (its_default))
    {
      if (!isnan (*value) && *value != 0)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.%s: %g, but %s has none",
                       what, fields[field].name, *value, kinds[spec->kind].name);
          return FALSE;
        }
      *value = 0;
      return TRUE;
    }
  if (isnan (*value))
    *value = its_default;
  return check_range (what, fields[field].name, *value, fields[field].range, error);
}

gboolean
tps_optimizer_spec_resolve (TpsOptimizerSpec *spec, const gchar *what, GError **error)
{
  TpsOptimizerSpec resolved = *spec;

  if (!is_known (spec->kind))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s.kind: unknown optimizer %d",
                   what, (gint) spec->kind);
      return FALSE;
    }
  if (!check_learning_rate (spec, what, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    if (!resolve_field (&resolved, i, what, error))
      return FALSE;
  *spec = resolved;
  return TRUE;
}

gboolean
tps_optimizer_spec_equal (const TpsOptimizerSpec *a, const TpsOptimizerSpec *b)
{
  return a->kind == b->kind && a->learning_rate == b->learning_rate && a->momentum == b->momentum
         && a->weight_decay == b->weight_decay && a->epsilon == b->epsilon && a->beta1 == b->beta1
         && a->beta2 == b->beta2 && a->l1 == b->l1 && a->l2 == b->l2 && a->beta == b->beta;
}

/* -- names -- */

const gchar *
tps_optimizer_kind_name (TpsOptimizerKind kind)
{
  return is_known (kind) ? kinds[kind].name : NULL;
}

gboolean
tps_optimizer_kind_find (const gchar *name, TpsOptimizerKind *kind, GError **error)
{
  g_autofree gchar *spelled = g_strdelimit (g_strdup (name), "-", '_');
  g_autoptr (GString) known = g_string_new (NULL);

  for (gint i = TPS_OPTIMIZER_SGD; i < (gint) G_N_ELEMENTS (kinds); i++)
    {
      if (g_ascii_strcasecmp (spelled, kinds[i].name) == 0)
        {
          *kind = (TpsOptimizerKind) i;
          return TRUE;
        }
      g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", kinds[i].name);
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "no optimizer \"%s\"; known: %s", name,
               known->str);
  return FALSE;
}

/* -- state -- */

gsize
tps_optimizer_state_per_row (const TpsOptimizerSpec *spec, gsize dim)
{
  switch (spec->kind)
    {
    case TPS_OPTIMIZER_SGD:
      return spec->momentum != 0 ? dim : 0;
    case TPS_OPTIMIZER_ADAGRAD:
      return dim;
    case TPS_OPTIMIZER_ROWWISE_ADAGRAD:
      return 1;
    case TPS_OPTIMIZER_ADAM:
    case TPS_OPTIMIZER_FTRL:
      return 2 * dim;
    }
  g_assert_not_reached ();
}

gboolean
tps_optimizer_counts_steps (const TpsOptimizerSpec *spec)
{
  return spec->kind == TPS_OPTIMIZER_ADAM;
}
