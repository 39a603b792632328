/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The trainers that a round still waits for, in messages and reports. */

#pragma once

#include "runtime/server/open_rounds.h"

G_BEGIN_DECLS

typedef gboolean (*TpsHasCome) (gconstpointer round, guint trainer);

/* "trainer 3", "trainers 0, 2", or the first hundred "and 5 more". The caller owns the text. */
gchar *tps_missing_trainers_to_string (guint n_trainers, guint n_missing, TpsHasCome has_come,
                                       gconstpointer round);

/* Fills in `missing` and `n_missing`. Examines at most `*n_looks` trainers and subtracts their
 * number from it. */
void tps_open_round_list_missing (TpsOpenRound *open, guint n_trainers, TpsHasCome has_come,
                                  gconstpointer round, guint *n_looks);

G_END_DECLS
