/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Ids that a device computes by a rule. */

#pragma once

#include "bench/gpu_bundle/device_cases.h"

G_BEGIN_DECLS

/* Returns TRUE if tps_device_ids_fill() can compute `n` ids of the rule exactly. `period` and
 * `n_different` must be powers of two with a product of at most 2^51, and `n` must be below
 * 2^53. */
gboolean tps_device_ids_can_fill (const TpsDeviceIdRule *rule, gsize n);

/* Fills `ids` [n], which are in memory of the device, by operations of the device on doubles. All
 * operations are exact. Blocks until the ids are complete. Errors: those of allocations and of the
 * stream. */
gboolean tps_device_ids_fill (TpsStream *stream, const TpsDeviceIdRule *rule, gsize n, gint64 *ids,
                              GError **error);

G_END_DECLS
