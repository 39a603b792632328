/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Batches in the memory of a pass's device. Internal to runtime/trainer. */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

/* Moves the plan's batches to the pass's device. Blocks. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST.
 * After an error, the batches remain where they were. */
gboolean tps_pass_move_batches (TpsPass *pass, GError **error);

G_END_DECLS
