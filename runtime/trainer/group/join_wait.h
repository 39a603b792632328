/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Waiting for the values that another rank puts into the store while a group is joined. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* Waits for the value of `key` (without the prefix), which rank `awaited_rank` puts into the store.
 * The wait consists of short requests, so that a cancelled join is noticed. The value is owned by
 * the caller. Errors (NULL): DEADLINE_EXCEEDED, naming the rank, after `deadline_ns` (monotonic);
 * ABORTED (cancelled); those of the store. */
GBytes *tps_join_wait (const TpsProcessGroupOptions *options, const gchar *key,
                       const gchar *awaited_rank, gint64 deadline_ns, GError **error);

/* Sets `key` (without the prefix) to `value`, as TpsStoreOps.put(). */
gboolean tps_join_put (const TpsProcessGroupOptions *options, const gchar *key, GBytes *value,
                       GError **error);

G_END_DECLS
