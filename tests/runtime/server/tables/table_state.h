/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* State that no call returns: the optimizer state of a table in host memory. */

#pragma once

#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* A copy of the state, to be freed with g_free(), and the number of steps. NULL with 0 bytes if
 * there is none, or if it is on a device. */
gpointer tps_test_dup_table_state (TpsTableStore *store, const gchar *table, gsize *n_bytes,
                                   gint64 *n_steps);

/* The window of the store's push ids, borrowed. */
TpsPushWindow *tps_test_get_pushes (TpsTableStore *store);

G_END_DECLS
