/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Who has not come, for messages. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef gboolean (*TpsHasCome) (gconstpointer round, guint trainer);

/* "trainer 3", "trainers 0, 2", or the first hundred "and 5 more"; owned by the caller. */
gchar *tps_missing_trainers_to_string (guint n_trainers, guint n_missing, TpsHasCome has_come,
                                       gconstpointer round);

G_END_DECLS
