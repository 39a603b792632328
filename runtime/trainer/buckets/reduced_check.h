/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Checks that the average of a bucket matches the bucket, because the average comes from another
 * process. */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

/* Returns TRUE if `reduced` matches the bucket of `call`. Reads all row ids. NONE matches every
 * bucket. Errors: INTERNAL naming the bucket. Thread: any. */
gboolean tps_reduced_check (const TpsBucketCall *call, const TpsGradient *reduced, GError **error);

G_END_DECLS
