/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whether all ranks lay out their buckets and compress them alike: collectives of other sizes would
 * not meet. And in which memory their buckets are: collectives of a device's memory meet only where
 * all are. */

#pragma once

#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* What one rank is to tell; all borrowed. */
typedef struct
{
  const TpsBucketLayout *layout;
  const TpsParameter *parameters;
  const TpsCompression *compression;
  gboolean on_device; /* buckets are in a device's memory */
} TpsLayoutFacts;

/* Blocks until all ranks have told, at most the group's time-out. `all_on_devices`: all of them
 * said on_device. Errors: INVALID_ARGUMENT naming a rank that differs, those of the group. */
gboolean tps_layout_check (const TpsLayoutFacts *facts, TpsProcessGroup *group,
                           gboolean *all_on_devices, GError **error);

G_END_DECLS
