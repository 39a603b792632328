/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Access to state that no public call returns. */

#pragma once

#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* Returns a copy of the optimizer state, which the caller must free with g_free(), and the number
 * of steps. Returns NULL if the table has no state (0 bytes) or if its device is lost. */
gpointer tps_test_dup_table_state (TpsTableStore *store, const gchar *table, gsize *n_bytes,
                                   gint64 *n_steps);

/* Returns the window of the store's push ids. The store owns it. */
TpsPushWindow *tps_test_get_pushes (TpsTableStore *store);

G_END_DECLS
