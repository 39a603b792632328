/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/nn/criterion.h"

#include "runtime/nn/entries.h"

static const gconstpointer built_in[] = { &tps_criterion_cross_entropy, &tps_criterion_l1 };

static TpsNnEntries criterions = TPS_NN_ENTRIES_INIT ("criterion", built_in);

const TpsCriterion *
tps_criterion_find (const gchar *name, GError **error)
{
  return tps_nn_entries_find (&criterions, name, error);
}

void
tps_criterion_register (const TpsCriterion *criterion)
{
  tps_nn_entries_register (&criterions, criterion);
}

const gchar **
tps_criterion_list (void)
{
  return tps_nn_entries_list (&criterions);
}
