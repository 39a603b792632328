/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A report of the rounds that wait for trainers, as they are at one moment. */

#pragma once

#include <glib.h>

#include "runtime/base/metrics.h"

G_BEGIN_DECLS

#define TPS_OPEN_ROUND_MAX_MISSING 100

/* A round that waits for trainers. */
typedef struct
{
  gint64 batch; /* 0, as is `param_loc`, if rounds have no batches */
  gint32 param_loc;
  guint n_arrived;
  gint64 age_ns;       /* since its first arrival */
  gint64 remaining_ns; /* until its deadline; below 0 if that has just passed */
  guint n_missing;     /* in `missing`: the first ones, in ascending order */
  gint32 missing[TPS_OPEN_ROUND_MAX_MISSING];
} TpsOpenRound;

/* The status of the averaging server. */
typedef struct
{
  guint n_trainers;
  gint64 round_timeout_ns;
  gint64 batch;   /* the current one; -1 = none has begun */
  guint n_open;   /* rounds */
  guint n_listed; /* of these, in the caller's array */
} TpsAveragingStatus;

/* The status of the batch-updating server. */
typedef struct
{
  guint n_trainers, min_trainers;
  gint64 round_timeout_ns;
  gint64 version;       /* of the model; 0 = there is none */
  gboolean is_updating; /* an update is being computed */
  gboolean has_round;   /* a round is open, and `round` is valid */
  TpsOpenRound round;
} TpsUpdatingStatus;

/* The maximum number of trainers that one report examines, while calls wait for the lock. In a
 * larger group, `missing` may lack trainers. */
#define TPS_OPEN_ROUNDS_MAX_LOOKS 65536

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

/* -- metrics of rounds -- */

/* Metrics of the rounds of a parameter server: REFERENCE.md. */

typedef struct
{
  TpsGauge *open;
  TpsGauge *waiting; /* calls, until they are answered */
  TpsCounter *completed;
} TpsRoundNumbers;

/* Fills in `numbers`, which are borrowed from `metrics`. `server` must be "averaging" or
 * "updating". */
void tps_round_numbers_init (TpsRoundNumbers *numbers, TpsMetrics *metrics, const gchar *server);

G_END_DECLS
