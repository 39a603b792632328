/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Batches in the memory of a pass's device. Internal to runtime/trainer. */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

/* Moves the plan's batches there. Waits. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; they stay where
 * they are then. */
gboolean tps_pass_move_batches (TpsPass *pass, GError **error);

G_END_DECLS
