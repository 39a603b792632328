/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* BatchUpdateTrainer: trains a model that is stored on a batch-updating server. Each step computes
 * gradients with the newest model on a batch of its own and sends them. The next step uses the
 * updated model from the reply, which all trainers of the step receive.
 *
 * The model class must be LinearModel. The trainer generates its batches: inputs are normal
 * (runtime/base/ziggurat.h), from the plan's seed, the trainer's rank and the number of the step;
 * targets are zeros. Every trainer offers the same initial model (init_model), filled from the
 * plan's seed. If a trainer is too late for an update (STALE: the server has updated the model
 * without this trainer), it fetches the model and continues with the next step; the gradients of
 * the late step are lost.
 *
 * Plan: servers must name one server, which stores the model; learning_rate; rpc_timeout applies to
 * one update. The number of steps is steps_per_epoch times epochs; batches is ignored.
 * trainer_config: batch_size (rows); momentum (of the server's SGD; optional, default 0).
 */

#pragma once

#include "runtime/trainer/pass/pass.h"

G_BEGIN_DECLS

extern const TpsTrainerClass tps_batch_update_trainer_class;

/* The number of the first random-number stream, under the plan's seed, for the inputs of trainer
 * `rank`. Step n, from 0, uses the stream with this number plus n. */
#define TPS_BATCH_UPDATE_STREAM(rank) ((guint64) 1 << 62 | (guint64) (rank) << 32)

typedef enum
{
  TPS_BATCH_UPDATE_BEGINS = 1,   /* a step begins, with its batch */
  TPS_BATCH_UPDATE_REPORTS = 2,  /* the gradients of the step are sent */
  TPS_BATCH_UPDATE_CONTINUES = 3 /* the new model has arrived */
} TpsBatchUpdateEvent;

/* Receives an event of trainer `rank`, on the training thread. */
typedef void (*TpsBatchUpdateObserver) (gpointer user_data, guint rank, TpsBatchUpdateEvent event);

/* Sets the callback for events, for use in logs; NULL removes it. Must be called before any trainer
 * runs. */
void tps_batch_update_trainer_observe (TpsBatchUpdateObserver observer, gpointer user_data);

G_END_DECLS
