/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Trainer service: starts passes and reports their progress. */

#pragma once

#include <thriftps/service.h>

#include "runtime/trainer/pass/trainer.h"

/* Returns the service for tps_plugin_add_service(), which takes over `trainer`. */
TpsService tps_trainer_service (TpsTrainer *trainer);
