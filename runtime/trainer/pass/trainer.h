/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs training passes on a separate thread, for the Trainer service. */

#pragma once

#include <thriftps/client.h>

#include "runtime/base/budget.h"
#include "runtime/base/metrics.h"
#include "runtime/tensor/train_plan.h"
#include "runtime/ports/table_client.h"

G_BEGIN_DECLS

typedef struct TpsTrainer TpsTrainer;

/* Connects a pass to other processes. The functions are called on the training thread and may block
 * until a deadline. Each returns NULL with an error on failure. connect_tables and connect_model
 * may be NULL; passes that need them then fail with UNAVAILABLE. connect_servers and connect_store
 * must be set if a pass needs them. The results are owned by the trainer. The exchange acts for
 * trainer plan->rank or, if plan->partition_by_trainer is set, for the number of this trainer
 * within its server's block (runtime/trainer/pass/partition.h). */
typedef struct
{
  /* Connects to the parameter servers that the plan names. */
  TpsExchange *(*connect_servers) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  /* Connects to the store through which process groups join. */
  TpsStore *(*connect_store) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  /* Connects to the embedding tables on the plan's servers. Results of lookups may lie in memory of
   * `lookup_device`; NULL = they must lie in host memory. */
  TpsTableClient *(*connect_tables) (gpointer user_data, const TpsTrainPlan *plan,
                                     TpsDevice *lookup_device, GError **error);
  /* Connects to the model on the plan's only server, as trainer plan->rank. */
  TpsModelClient *(*connect_model) (gpointer user_data, const TpsTrainPlan *plan, GError **error);
  gpointer user_data;
  /* The address of this process for the process groups of other trainers; NULL = 127.0.0.1. */
  const gchar *host;
  /* The budget to which each pass on the CPU charges its model, with gradients and averages, from
   * its beginning to its end. Borrowed; NULL = memory is charged to the default pool's budget when
   * it is allocated. */
  TpsBudget *budget;
  guint16 first_port, last_port; /* of the process groups; 0 = any */
  /* A pass that needs a process group of several trainers fails with PERMISSION_DENIED. */
  gboolean no_plain_groups;
  gboolean no_shared_memory; /* process groups use sockets even within a machine */
  guint local_rank; /* of this process among the roles of its machine; selects the device */
} TpsTrainerLinks;

/* Creates a trainer, owned by the caller. Takes a reference to `metrics`. `links` is copied,
 * including `host`. */
TpsTrainer *tps_trainer_new (const TpsTrainerLinks *links, TpsMetrics *metrics);

/* Cancels the pass, joins the thread and frees the trainer. */
void tps_trainer_free (TpsTrainer *trainer);

/* Starts a pass and returns without waiting for its end. Takes over the plan in every case. Clears
 * the metrics when the pass starts. Errors: INVALID_ARGUMENT naming the argument (for an unknown
 * registry name, the message lists the known ones; shapes and ids are checked here), those of
 * tps_device_choose(), DEVICE_LOST, RESOURCE_EXHAUSTED (for example, if the model is larger than
 * the budget), ALREADY_EXISTS while a pass runs. Thread: any. */
gboolean tps_trainer_train (TpsTrainer *trainer, TpsTrainPlan *plan, GError **error);

/* Returns TRUE if tps_trainer_train() would accept this plan in a process that computes on the CPU;
 * ignores the device that the plan names. Authors of plans can use this check before trainers are
 * started. Takes over the plan; creates its model and frees it. Errors: INVALID_ARGUMENT and
 * RESOURCE_EXHAUSTED, as tps_trainer_train(). */
gboolean tps_trainer_check_plan (TpsTrainPlan *plan, GError **error);

/* Fills `status` with a snapshot of the current pass or, between passes, of the last one. The
 * caller must clear `status`. Thread: any. */
void tps_trainer_get_status (TpsTrainer *trainer, TpsTrainStatus *status);

/* Cancels the running pass, which soon ends as CANCELLED: its calls in flight are cancelled, and
 * its process group is closed. Does not wait for the end. Thread: any. */
void tps_trainer_cancel (TpsTrainer *trainer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTrainer, tps_trainer_free)

G_END_DECLS
