/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of a pass that pass_parts.c registers. Internal to this folder. */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

extern const TpsTrainerClass tps_ddp_trainer_class;
extern const TpsPreprocess tps_preprocess_dummy_data;
extern const TpsDdpModelMaker tps_basic_ddp_model;
extern const TpsIterationStep tps_basic_iteration_step;

G_END_DECLS
