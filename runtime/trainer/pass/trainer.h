/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs training passes on a thread of its own: what the Trainer service calls. */

#pragma once

#include "runtime/trainer/ports/exchange.h"
#include "runtime/base/metrics.h"
#include "runtime/trainer/ports/store.h"
#include "runtime/trainer/pass/train_plan.h"
#include "runtime/trainer/ports/table_client.h"
#include "runtime/trainer/ports/model_client.h"

G_BEGIN_DECLS

typedef struct TpsTrainer TpsTrainer;

/* Makes what a pass needs from outside; called on the training thread, may block until a deadline.
 * All return NULL with an error; one that is NULL itself cannot be reached from this process; what
 * they return belongs to the trainer. The exchange speaks for trainer plan->rank, or, where
 * plan->partition_by_trainer, for that trainer's number within its server's block
 * (runtime/trainer/pass/partition.h). */
typedef struct
{
  TpsExchange *(*connect_servers) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  TpsStore *(*connect_store) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  /* The embedding tables on the plan's servers. */
  TpsTableClient *(*connect_tables) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  /* The model on the plan's only server, for trainer plan->rank. */
  TpsModelClient *(*connect_model) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  gpointer user_data;
  /* address of this process that other trainers' process groups can reach; NULL = 127.0.0.1 */
  const gchar *host;
  guint16 first_port, last_port; /* that its process groups listen on; 0 = any */
  gboolean
      no_plain_groups; /* passes with a process group of several trainers fail: PERMISSION_DENIED */
  gboolean no_shared_memory; /* its process groups sum through sockets even within a machine */
  guint local_rank; /* of this process among the roles of its machine: for the choice of a device */
} TpsTrainerLinks;

/* `metrics`: a reference is taken. `links` is copied, `host` included. */
TpsTrainer *tps_trainer_new (const TpsTrainerLinks *links, TpsMetrics *metrics);

/* Cancels, joins the thread, frees. */
void tps_trainer_free (TpsTrainer *trainer);

/* Takes over the plan, whatever comes; answers at once. Errors: INVALID_ARGUMENT naming the
 * argument (unknown registry names list the known ones; shapes and ids are checked here),
 * RESOURCE_EXHAUSTED (the model is larger than the budget), ALREADY_EXISTS while a pass runs.
 * Clears the metrics. Thread: any. */
gboolean tps_trainer_train (TpsTrainer *trainer, TpsTrainPlan *plan, GError **error);

/* Whether tps_trainer_train() would take this plan in a process that computes on the CPU, whatever
 * the plan's device: for the author of a plan, before trainers are started. Takes over the plan;
 * makes its model and frees it. Errors: as there. */
gboolean tps_trainer_check_plan (TpsTrainPlan *plan, GError **error);

void tps_trainer_get_status (TpsTrainer *trainer, TpsTrainStatus *status);

/* The running pass ends as CANCELLED soon: outstanding exchanges are cancelled, the process group
 * is closed. Does not wait for it. Thread: any. */
void tps_trainer_cancel (TpsTrainer *trainer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTrainer, tps_trainer_free)

G_END_DECLS
