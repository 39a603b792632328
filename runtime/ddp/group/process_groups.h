/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The implementations behind tps_process_group_new(). Internal to this folder. */

#pragma once

#include "runtime/ddp/process_group.h"

G_BEGIN_DECLS

/* A group of one rank: collectives are done before the call returns. Never fails. */
TpsProcessGroup *tps_single_process_group_new (void);

/* The Gloo library over TCP. Errors: see tps_process_group_new(). */
TpsProcessGroup *tps_gloo_process_group_new (const TpsProcessGroupOptions *options, GError **error);

G_END_DECLS
