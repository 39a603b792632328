/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arguments of lookup_bags and apply_bag_gradients.
 *
 * Arguments that were read own their tensors (large ones refer to their receive buffers) and
 * contain views of them in the runtime's types. This file checks structure and dtypes, and
 * runtime/embedding checks the rest.
 */

#pragma once

#include "plugin/wire/wire_tensor.h"

G_BEGIN_DECLS

/* Memory of tensors that were read. */
typedef struct
{
  guint n_buffers;
  TpsBuffer **buffers;
} TpsOwnedBuffers;

typedef struct
{
  guint n_queries;
  TpsBagQuery *queries;
  TpsOwnedBuffers *owned; /* NULL: all tensors are borrowed until the writer releases them */
} TpsLookupBagsArguments;

typedef struct
{
  guint n_gradients;
  TpsBagGradient *gradients;
  TpsPushId push;         /* client NULL = no push id */
  TpsOwnedBuffers *owned; /* as in TpsLookupBagsArguments */
} TpsApplyBagGradientsArguments;

void tps_lookup_bags_arguments_clear (TpsLookupBagsArguments *arguments);
void tps_apply_bag_gradients_arguments_clear (TpsApplyBagGradientsArguments *arguments);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLookupBagsArguments, tps_lookup_bags_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsApplyBagGradientsArguments,
                                  tps_apply_bag_gradients_arguments_clear)

G_END_DECLS
