/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Resolves the names in a plan. Internal to runtime/trainer. */

#pragma once

#include "runtime/trainer/pass/pass.h"

/* Checks pass->plan, finds the parts and the device that it names, creates the model, charges its
 * memory and prepares the batches. Errors: INVALID_ARGUMENT naming the argument; those of
 * tps_device_choose(); RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_pass_resolve (TpsPass *pass, GError **error);
