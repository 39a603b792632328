/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One mini-batch of classification data. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Owns its tensors; must be cleared with tps_train_batch_clear(). */
typedef struct
{
  TpsTensor input;  /* INT64 [batch, length]: ids */
  TpsTensor target; /* INT64 [batch]: classes */
} TpsTrainBatch;

static inline void
tps_train_batch_clear (TpsTrainBatch *batch)
{
  tps_tensor_clear (&batch->input);
  tps_tensor_clear (&batch->target);
}

G_END_DECLS
