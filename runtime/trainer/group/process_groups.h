/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The implementations behind tps_process_group_new(). Internal to this folder. */

#pragma once

#include "runtime/trainer/group/device_groups.h"

G_BEGIN_DECLS

/* Creates a group of one rank, in which a collective ends before its call returns. Owned by the
 * caller. Never fails. */
TpsProcessGroup *tps_single_process_group_new (void);

/* Creates a group on the Gloo library, over TCP and, within a machine, shared memory. Errors: see
 * tps_process_group_new(). */
TpsProcessGroup *tps_gloo_process_group_new (const TpsProcessGroupOptions *options, GError **error);

/* Creates a group on Gloo for host memory and NCCL for device memory, or on Gloo alone if any
 * rank lacks NCCL. Errors: see tps_process_group_new(). */
TpsProcessGroup *tps_multi_process_group_new (const TpsProcessGroupOptions *options,
                                              GError **error);

/* Returns the interface for groups in this process's device library, static. Errors (NULL):
 * NOT_FOUND, with the reason, if there is no device. */
const TpsDeviceGroups *tps_device_groups_find (GError **error);

/* Creates a group on NCCL. Errors: NOT_FOUND if there is no device; see tps_process_group_new(). */
TpsProcessGroup *tps_device_process_group_new (const TpsProcessGroupOptions *options,
                                               GError **error);

/* out = the sum of weights[p] * parts[p] in FLOAT32, in order and without parts of weight 0,
 * divided by `divisor` and rounded once. This is the averaging server's arithmetic for FLOAT16,
 * BFLOAT16 and FLOAT32. `out` may be one of the parts; it does not change if all weights are 0. */
void tps_average_in_rank_order (TpsDType dtype, gpointer out, const gconstpointer *parts,
                                const gdouble *weights, guint n_parts, gdouble divisor,
                                gsize n_elems);

G_END_DECLS
