/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/rpcs.h"

#include "plugin/plugin.h"

#define SERVICE "Transfer"

static const TpsField tensor_arguments[] = {
  { "tensor", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct },
  { NULL },
};

static const TpsField pull_arguments[] = {
  { "n_bytes", 1, TPS_FIELD_REQUIRED, &tps_kind_i64 },
  { NULL },
};

static const TpsField tensor_result = { "tensor", .kind = &tps_kind_struct,
                                        .of = &tps_tensor_struct };

const TpsRpc tps_transfer_rpcs[] = {
  [TPS_TRANSFER_PUSH] = { SERVICE, "push", tensor_arguments },
  [TPS_TRANSFER_PULL] = { SERVICE, "pull", pull_arguments, &tensor_result },
  [TPS_TRANSFER_ECHO] = { SERVICE, "echo", tensor_arguments, &tensor_result },
};
