/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whether what came back for a bucket is what was asked for: servers are another program. */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

/* NONE fits every bucket. Reads all ids of rows. Errors: INTERNAL naming the bucket. Thread:
 * any. */
gboolean tps_reduced_check (const TpsBucketCall *call, const TpsGradient *reduced, GError **error);

G_END_DECLS
