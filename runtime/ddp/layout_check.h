/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whether all ranks lay out their buckets and compress them alike: collectives of other sizes would not meet. */

#pragma once

#include "runtime/ddp/buckets.h"
#include "runtime/ddp/compress/compression.h"
#include "runtime/ddp/process_group.h"

G_BEGIN_DECLS

/* Blocks until all ranks have told, at most the group's time-out. Errors: INVALID_ARGUMENT naming a rank that differs, those
 * of the group. */
gboolean tps_layout_check (const TpsBucketLayout *layout, const TpsParameter *parameters,
                           const TpsCompression *compression, TpsProcessGroup *group,
                           GError **error);

G_END_DECLS
