/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* BatchUpdateTrainer: trains a model that lives on a batch-updating server. Each step computes
 * gradients on a batch of its own with the newest model, sends them and goes on with the model that
 * comes back, which all trainers of the step get.
 *
 * Works on the model class LinearModel. Its batches are made here: inputs are normal
 * (runtime/nn/ziggurat.h), from the plan's seed, the trainer's rank and the number of the step;
 * targets are zeros. Every trainer offers the same first model (init_model), filled from the plan's
 * seed. Who comes too late for an update (STALE: the others were enough) fetches the model and goes
 * on with the next step; its gradients are lost.
 *
 * Plan: servers is the one that has the model; learning_rate; rpc_timeout is for one update.
 * steps_per_epoch and epochs make up the number of steps; batches is empty. trainer_config:
 * batch_size (rows); momentum (of the server's SGD; optional, 0).
 */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

extern const TpsTrainerClass tps_batch_update_trainer_class;

/* The sequence of `stream`s under the plan's seed that the inputs of trainer `rank` are drawn from:
 * this plus the number of the step, from 0. */
#define TPS_BATCH_UPDATE_STREAM(rank) ((guint64) 1 << 62 | (guint64) (rank) << 32)

typedef enum
{
  TPS_BATCH_UPDATE_BEGINS = 1,   /* with a batch */
  TPS_BATCH_UPDATE_REPORTS = 2,  /* its gradients */
  TPS_BATCH_UPDATE_CONTINUES = 3 /* with the new model */
} TpsBatchUpdateEvent;

typedef void (*TpsBatchUpdateObserver) (gpointer user_data, guint rank, TpsBatchUpdateEvent event);

/* Sets a callback for logs, on the training thread; NULL = none. Must be called before any trainer
 * runs. */
void tps_batch_update_trainer_observe (TpsBatchUpdateObserver observer, gpointer user_data);

G_END_DECLS
