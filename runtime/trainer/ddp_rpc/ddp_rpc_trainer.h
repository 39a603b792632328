/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "DdpRpcTrainer": trains HybridModel, whose dense part is averaged among the trainers, on bags
 * that embedding tables on servers pool. One step:
 *
 *   look up all tables, in flight together -> concatenate -> forward, cross-entropy
 *     -> gradient of the input -> push of each table's slice of it, while the gradients of the
 *        parameters are computed, averaged and applied
 *     -> wait for the push
 *
 * The tables lie side by side in the columns of [bags, tables * embedding_dim], which is reshaped
 * to rows of 512, the width of the model; the target of a bag counts for each of its rows. Tables
 * update themselves, with the optimizer that they were made with. The trainer makes its batches
 * itself (bag_batches.h), `steps_per_epoch` of the plan each epoch, from the plan's seed.
 *
 * Arguments (trainer_config): tables (their names, separated by commas), num_embeddings,
 * embedding_dim; optional: task ("random"), sequential_lookups (false: one table after the other),
 * first_epoch (0: where the data goes on). Metrics: epoch_metric epoch; batch_level_metric
 * batch_all; lookup_metric lookup; forward_metric forward_pass; backward_metric backward (until the
 * averages are there); push_metric push; hook_future_metric of the hook.
 */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

/* How many rows of the model a bag gives. Errors: INVALID_ARGUMENT unless n_tables * embedding_dim
 * is a multiple of 512. */
gboolean tps_ddp_rpc_check_shape (gint64 n_tables, gint64 embedding_dim, gint64 *rows_per_bag,
                                  GError **error);

extern const TpsTrainerClass tps_ddp_rpc_trainer_class;

G_END_DECLS
