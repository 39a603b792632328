/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan and the status of one training pass of one trainer: the runtime's form of the wire's
 * TrainSpec and TrainStatus. */

#pragma once

#include "runtime/tensor/batch.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 rank;
  gchar *address; /* "host:port" or "unix:/path" */
} TpsServerAddress;

/* The fields have the meanings of those in thrift/trainer.thrift. JSON objects are GVariant
 * dictionaries (runtime/base/config.h). */
typedef struct
{
  gchar *pass_name;
  guint rank;
  guint world_size;
  gchar *model_class;     /* key of the model registry */
  GVariant *model_config; /* a{sv}: named arguments of the class, never NULL */
  guint n_batches;
  TpsTrainBatch *batches; /* cleared with the plan */
  guint steps_per_epoch;
  guint epochs;
  gint64 seed;
  gchar *trainer;
  GVariant *trainer_config; /* a{sv}: named arguments of the trainer class, never NULL */
  gchar *backend;
  gchar *preprocess_data;
  gchar *create_criterion;
  gchar *create_ddp_model;
  gchar *hook_state;
  gchar *ddp_hook;
  gchar *iteration_step;
  guint n_servers;
  TpsServerAddress *servers; /* cleared with the plan */
  gboolean partition_by_trainer;
  gdouble first_bucket_mib;
  gdouble bucket_cap_mib;
  gint64 piece_bytes; /* 0 = whole buckets */
  gdouble learning_rate;
  gint64 rpc_timeout_ns;
  gchar *rendezvous; /* address; "" = the configuration of the process */
  gchar *reduce;     /* "mean", "sum" */
  gchar *compress;   /* runtime/trainer/compress/compression.h: "none", "topk:0.01" */
  gchar *device;     /* runtime/trainer/pass/device_choice.h: "cpu", "cuda", "cuda:1" */
  TpsDevice *chosen; /* the device of that name, found before the pass connects; borrowed */
} TpsTrainPlan;

TpsTrainPlan *tps_train_plan_new (void);
void tps_train_plan_free (TpsTrainPlan *plan);

/* Appends a batch, whose tensors move into the plan; tps_train_plan_clear_batches() releases all
 * batches. */
void tps_train_plan_take_batch (TpsTrainPlan *plan, TpsTrainBatch *batch);
void tps_train_plan_clear_batches (TpsTrainPlan *plan);

/* Appends a server and copies its address; tps_train_plan_clear_servers() removes all servers. */
void tps_train_plan_add_server (TpsTrainPlan *plan, gint32 rank, const gchar *address);
void tps_train_plan_clear_servers (TpsTrainPlan *plan);

typedef enum
{
  TPS_TRAIN_IDLE = 1,
  TPS_TRAIN_RUNNING = 2,
  TPS_TRAIN_SUCCEEDED = 3,
  TPS_TRAIN_FAILED = 4,
  TPS_TRAIN_CANCELLED = 5,
} TpsTrainState;

/* A snapshot, owned by the caller; must be cleared with tps_train_status_clear(). */
typedef struct
{
  TpsTrainState state;
  gchar *pass_name;
  gint64 steps_done;
  gint64 steps_total;
  gint64 heartbeat;
  GError *error; /* only if state is FAILED */
  gboolean has_loss;
  gdouble loss;
  gboolean has_digest;
  guint8 parameters_digest[16];
  gint64 samples;       /* trained so far; 0 = not counted */
  gint64 epoch_samples; /* in the last whole epoch */
} TpsTrainStatus;

void tps_train_status_clear (TpsTrainStatus *status);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTrainPlan, tps_train_plan_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTrainStatus, tps_train_status_clear)

G_END_DECLS
