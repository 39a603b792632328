/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/trainer.thrift: the methods as TpsRpcs (rpc.h). TrainSpec is the runtime's TpsTrainPlan,
 * and TrainStatus its TpsTrainStatus.
 *
 * Fields of TrainSpec that are not `required` may be missing: the plan then keeps the values of
 * tps_train_plan_new(). Reading checks that numbers fit the plan, and parses the two JSON texts,
 * which become a class name and GVariant dictionaries. tps_trainer_train() checks names and shapes.
 */

#pragma once

#include "plugin/wire/rpc.h"
#include "runtime/tensor/train_plan.h"

G_BEGIN_DECLS

extern const TpsRpc tps_train_rpc;        /* TpsTrainPlan, from tps_train_plan_new () */
extern const TpsRpc tps_train_status_rpc; /* -> TpsTrainStatus */
extern const TpsRpc tps_cancel_train_rpc;

G_END_DECLS
