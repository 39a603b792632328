/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One mini-batch of training data. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* The model determines dtypes and shapes (TpsModelClass.check_batch). A batch owns its tensors and
 * must be cleared with tps_train_batch_clear(). */
typedef struct
{
  TpsTensor input;  /* [batch, …], such as INT64 ids [batch, length] */
  TpsTensor target; /* [batch, …], such as INT64 classes [batch] */
} TpsTrainBatch;

/* Releases the tensors. */
static inline void
tps_train_batch_clear (TpsTrainBatch *batch)
{
  tps_tensor_clear (&batch->input);
  tps_tensor_clear (&batch->target);
}

G_END_DECLS
