/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What no call answers: the optimizer state of a table in the host's memory. */

#pragma once

#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* A copy of the state, g_free(), and the number of steps. NULL with 0 bytes where there is none, or
 * a device has it. */
gpointer tps_test_dup_table_state (TpsTableStore *store, const gchar *table, gsize *n_bytes,
                                   gint64 *n_steps);

/* The window of the store's push ids, borrowed. */
TpsPushWindow *tps_test_get_pushes (TpsTableStore *store);

G_END_DECLS
