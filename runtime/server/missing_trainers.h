/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Trainers that a round still waits for, for messages and reports. */

#pragma once

#include "runtime/server/open_rounds.h"

G_BEGIN_DECLS

typedef gboolean (*TpsHasCome) (gconstpointer round, guint trainer);

/* "trainer 3", "trainers 0, 2", or the first hundred "and 5 more"; owned by the caller. */
gchar *tps_missing_trainers_to_string (guint n_trainers, guint n_missing, TpsHasCome has_come,
                                       gconstpointer round);

/* Fills in `missing` and `n_missing`. Looks at `*n_looks` trainers at most, and subtracts those
 * that it has looked at. */
void tps_open_round_list_missing (TpsOpenRound *open, guint n_trainers, TpsHasCome has_come,
                                  gconstpointer round, guint *n_looks);

G_END_DECLS
