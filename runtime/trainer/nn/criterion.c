/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/criterion.h"

#include "runtime/base/registry.h"

static const gconstpointer built_in[] = { &tps_criterion_cross_entropy, &tps_criterion_l1 };

static TpsRegistry criterions = TPS_REGISTRY_INIT ("criterion", built_in);

const TpsCriterion *
tps_criterion_find (const gchar *name, GError **error)
{
  return tps_registry_find (&criterions, name, error);
}

void
tps_criterion_register (const TpsCriterion *criterion)
{
  tps_registry_add (&criterions, criterion);
}

const gchar **
tps_criterion_list (void)
{
  return tps_registry_list (&criterions);
}
