/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The hooks and hook states that hook.c registers, one file for each. Internal to this folder. */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

extern const TpsHook tps_allreduce_hook;
extern const TpsHook tps_hybrid_hook;
extern const TpsHook tps_rpc_hook;
extern const TpsHook tps_sparse_rpc_hook;

extern const TpsHookStateClass tps_basic_hook_state_class;

G_END_DECLS
