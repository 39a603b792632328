/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The implementations behind tps_process_group_new(). Internal to this folder. */

#pragma once

#include "runtime/trainer/group/device_groups.h"

G_BEGIN_DECLS

/* A group of one rank: collectives are done before the call returns. Never fails. */
TpsProcessGroup *tps_single_process_group_new (void);

/* The Gloo library over TCP. Errors: see tps_process_group_new(). */
TpsProcessGroup *tps_gloo_process_group_new (const TpsProcessGroupOptions *options, GError **error);

/* Gloo, and NCCL where all ranks have it. Errors: see tps_process_group_new(). */
TpsProcessGroup *tps_multi_process_group_new (const TpsProcessGroupOptions *options,
                                              GError **error);

/* What this process's library of devices has for groups; NULL with NOT_FOUND where it has no
 * device, and why. */
const TpsDeviceGroups *tps_device_groups_find (GError **error);

/* NCCL. NOT_FOUND where there is no device. Errors: see tps_process_group_new(). */
TpsProcessGroup *tps_device_process_group_new (const TpsProcessGroupOptions *options,
                                               GError **error);

/* out = the sum of weights[p] * parts[p] in FLOAT32, in order and without those of weight 0,
 * divided by `divisor` and rounded once: what the averaging server computes of half floats
 * (FLOAT16, BFLOAT16). `out` may be one of the parts; it is left alone where all weights are 0. */
void tps_average_in_rank_order (TpsDType dtype, gpointer out, const gconstpointer *parts,
                                const gdouble *weights, guint n_parts, gdouble divisor,
                                gsize n_elems);

G_END_DECLS
