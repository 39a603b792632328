/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Checks that all ranks use the same bucket layout and compression, because collectives of
 * different sizes would not match. Also reports whether all ranks have their buckets in device
 * memory, because a collective in device memory requires this of every rank. */

#pragma once

#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* The facts of one rank; all members are borrowed. */
typedef struct
{
  const TpsBucketLayout *layout;
  const TpsParameter *parameters;
  const TpsCompression *compression;
  gboolean on_device; /* the buckets are in a device's memory */
} TpsLayoutFacts;

/* Exchanges the facts of all ranks and compares them. Blocks until all ranks have taken part, at
 * most for the group's timeout. `all_on_devices` receives TRUE if every rank has set on_device.
 * Errors: INVALID_ARGUMENT naming a rank that differs; those of the group. */
gboolean tps_layout_check (const TpsLayoutFacts *facts, TpsProcessGroup *group,
                           gboolean *all_on_devices, GError **error);

G_END_DECLS
