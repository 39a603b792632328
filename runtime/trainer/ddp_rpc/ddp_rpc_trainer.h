/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "DdpRpcTrainer": trains HybridModel, whose dense part is averaged among the trainers, on bags
 * that embedding tables on servers pool. One step:
 *
 *   look up all tables, in flight together -> concatenate -> forward, cross-entropy
 *     -> gradient of the input -> push of each table's slice of it, while the gradients of the
 *        parameters are computed, averaged and applied
 *     -> wait for the push
 *
 * The outputs of the tables are the columns of a matrix [bags, tables * embedding_dim], which is
 * reshaped to rows of 512, the width of the model. The target of a bag applies to each of its rows.
 * Tables update themselves with the optimizer of their specification. The trainer generates its
 * batches (bag_batches.h) from the plan's seed, `steps_per_epoch` of the plan in each epoch.
 *
 * Arguments (trainer_config): tables (names separated by commas), num_embeddings, embedding_dim;
 * optional: task ("random"), sequential_lookups (false; true looks up one table after another),
 * host_lookups (false; true: a trainer on a device receives all results of lookups in host memory,
 * even if its servers share memory of that device), first_epoch (0: the epoch at which the data
 * start). Metrics: epoch_metric epoch;
 * batch_level_metric batch_all; lookup_metric lookup; forward_metric forward_pass; backward_metric
 * backward (until the averages have arrived); push_metric push; hook_future_metric of the hook.
 */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

/* Computes `rows_per_bag`, the number of rows of the model's input for each bag. Errors:
 * INVALID_ARGUMENT unless n_tables * embedding_dim is a multiple of 512. */
gboolean tps_ddp_rpc_check_shape (gint64 n_tables, gint64 embedding_dim, gint64 *rows_per_bag,
                                  GError **error);

extern const TpsTrainerClass tps_ddp_rpc_trainer_class;

G_END_DECLS
