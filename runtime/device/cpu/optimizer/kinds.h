/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The optimizers that optimizer.c lists, each defined in a file of its own. Internal to this
 * folder. */

#pragma once

#include "runtime/device/cpu/optimizer/optimizer.h"

extern const TpsCpuOptimizer tps_cpu_sgd_optimizer;
extern const TpsCpuOptimizer tps_cpu_adagrad_optimizer;
extern const TpsCpuOptimizer tps_cpu_rowwise_adagrad_optimizer;
extern const TpsCpuOptimizer tps_cpu_adam_optimizer;
extern const TpsCpuOptimizer tps_cpu_ftrl_optimizer;
