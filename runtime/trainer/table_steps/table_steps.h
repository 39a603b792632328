/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Embedding tables in the steps of one trainer, with little traffic and little waiting.
 *
 *   prefetch (bags of step 0)
 *   for each step k:
 *     take (vectors of step k)         waits for the rows of step k
 *     prefetch (bags of step k + 1)    their lookup runs while step k computes
 *     push (gradients of step k)       runs while the caller continues
 *   settle ()
 *
 * Traffic. Each lookup and each push is one call for each server, for all tables. An id travels
 * once in a call, however often the bags contain it; gradients are added up by id before they are
 * sent.
 *
 * Staleness. The rows of step k include this object's pushes of the steps before k - max_staleness.
 * With max_staleness 0 they include all earlier pushes, so lookups have the same bits as without
 * prefetch. If a push that must be included changes rows of a step after their prefetch, these rows
 * are fetched again when the push has ended. With tps_table_steps_note_changes(), a caller can
 * report ids that other trainers have changed; their rows are fetched again as well.
 *
 * Pooling is TPS_POOLING_SUM and is done here; an optimizer that counts steps counts one step of a
 * table for each push with ids. Results have the same bits as lookups and pushes of the bags on one
 * server, for any number of servers.
 *
 * After an error, the object can only be freed. Thread: one at a time.
 */

#pragma once

#include "runtime/ports/table_client.h"
#include "runtime/trainer/table_steps/step_bags.h"

G_BEGIN_DECLS

#define TPS_TABLE_STEPS_MAX_STALENESS 64

typedef struct TpsTableSteps TpsTableSteps;

typedef struct
{
  TpsTableClient *client;     /* borrowed; its results must lie in host memory */
  const gchar *const *tables; /* [n_tables] their names; copied */
  const gsize *dims;          /* [n_tables] floats of a row; copied */
  guint n_tables;
  guint max_staleness; /* 0 to TPS_TABLE_STEPS_MAX_STALENESS */
  gint64 timeout_ns;   /* of each call */
} TpsTableStepsOptions;

/* Creates an object, owned by the caller. Errors: INVALID_ARGUMENT (no table, a dimension of 0, a
 * bound that is too large). */
TpsTableSteps *tps_table_steps_new (const TpsTableStepsOptions *options, GError **error);

/* Cancels the client if calls are in flight, waits for their end, and frees the object. */
void tps_table_steps_free (TpsTableSteps *steps);

/* Starts the lookup of the next step, for `bags` [n_tables]. The arrays of the bags stay borrowed
 * until the push of this step has ended. At most one step may be prefetched beyond the step that
 * was taken last. Does not block on the network. Errors: INVALID_ARGUMENT (two steps are ahead; a
 * negative id; offsets that do not ascend from 0 to at most n_ids, or ids of no bag). */
gboolean tps_table_steps_prefetch (TpsTableSteps *steps, const TpsStepBags *bags, GError **error);

/* Waits for the rows of the prefetched step, and writes its pooled vectors to `vectors` [n_tables].
 * Errors: those of the client, of lookups and of the pushes for which it waits; INVALID_ARGUMENT
 * (no step is prefetched; the previous step was not pushed; a reply has a wrong shape or lies in
 * device memory). */
gboolean tps_table_steps_take (TpsTableSteps *steps, const TpsStepVectors *vectors, GError **error);

/* Adds up `gradients` [n_tables], those of the pooled vectors of the step that was taken last, and
 * starts their push. The gradients are borrowed only for the call. Errors: INVALID_ARGUMENT (no
 * step has been taken since the last push). */
gboolean tps_table_steps_push (TpsTableSteps *steps, const TpsStepVectors *gradients,
                               GError **error);

/* Returns the different ids of a table in the last push, ascending; borrowed until the next
 * prefetch. Before the first push, the result is NULL and `n_ids` is 0. */
const gint64 *tps_table_steps_get_pushed (const TpsTableSteps *steps, guint table, gsize *n_ids);

/* Reports that others have changed the rows ids[n] of a table; the ids must be ascending and
 * different. If the prefetched step uses any of these rows, they are fetched again when the step is
 * taken. */
void tps_table_steps_note_changes (TpsTableSteps *steps, guint table, const gint64 *ids, gsize n);

/* Waits until at most max_staleness pushes are in flight. Errors: those of the pushes. */
gboolean tps_table_steps_wait (TpsTableSteps *steps, GError **error);

/* Waits until no push is in flight. Errors: those of the pushes. */
gboolean tps_table_steps_settle (TpsTableSteps *steps, GError **error);

/* Counts since the creation, for reports. */
typedef struct
{
  guint64 n_ids;       /* of all bags */
  guint64 n_fetched;   /* rows that were looked up, without n_refreshed */
  guint64 n_refreshed; /* rows that were fetched again */
} TpsTableStepsCounts;

/* Returns the counts so far. */
TpsTableStepsCounts tps_table_steps_get_counts (const TpsTableSteps *steps);

G_END_DECLS
