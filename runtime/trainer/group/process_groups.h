/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The implementation of "gloo" behind tps_process_group_new(). Internal to this folder. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* Creates a group on the Gloo library, over TCP and, within a machine, shared memory. Errors: see
 * tps_process_group_new(). */
TpsProcessGroup *tps_gloo_process_group_new (const TpsProcessGroupOptions *options, GError **error);

G_END_DECLS
