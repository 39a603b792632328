/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The trainers that a round still waits for, in messages and reports. */

#pragma once

#include "runtime/server/open_rounds.h"

G_BEGIN_DECLS

/* Returns TRUE if `trainer` has arrived in `round`. */
typedef gboolean (*TpsHasCome) (gconstpointer round, guint trainer);

/* Returns a text such as "trainer 3" or "trainers 0, 2". It names at most a hundred trainers, and
 * then ends with "and 5 more". `n_missing` must be the number of trainers for which `has_come`
 * returns FALSE. The caller owns the text. */
gchar *tps_missing_trainers_to_string (guint n_trainers, guint n_missing, TpsHasCome has_come,
                                       gconstpointer round);

/* Fills in `missing` and `n_missing` of `open`, whose `n_arrived` must be set. Examines at most
 * `*n_looks` trainers, and subtracts the number of examined trainers from `*n_looks`. */
void tps_open_round_list_missing (TpsOpenRound *open, guint n_trainers, TpsHasCome has_come,
                                  gconstpointer round, guint *n_looks);

G_END_DECLS
