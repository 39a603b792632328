/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Waiting for what another rank puts into the store while a group is joined. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* The value of `key` (without the prefix), which `awaited_rank` puts there. Asks again and again,
 * so that a cancelled join is noticed. NULL with DEADLINE_EXCEEDED (naming the rank) after
 * `deadline_ns` (monotonic), ABORTED (cancelled), those of the store. Owned. */
GBytes *tps_join_wait (const TpsProcessGroupOptions *options, const gchar *key,
                       const gchar *awaited_rank, gint64 deadline_ns, GError **error);

/* As the store's put(). */
gboolean tps_join_put (const TpsProcessGroupOptions *options, const gchar *key, GBytes *value,
                       GError **error);

G_END_DECLS
