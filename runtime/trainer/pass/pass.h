/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One training pass, and the parts that it is put together from by name: what a program that adds a
 * trainer, a model wrapper, an iteration step or a preprocessing of its own works with.
 *
 * Life: tps_trainer_train() makes a pass from a plan (checks, model, preprocessing) -> the trainer
 * class runs it on the training thread -> what it connected to is closed -> the status is final.
 */

#pragma once

#include "runtime/trainer/ddp/ddp.h"
#include "runtime/trainer/ports/hook.h"
#include "runtime/trainer/pass/train_plan.h"
#include "runtime/trainer/pass/trainer.h"
#include "runtime/trainer/ports/table_client.h"
#include "runtime/nn/model.h"

G_BEGIN_DECLS

typedef struct TpsPass TpsPass;
typedef struct TpsPassControl TpsPassControl; /* pass/pass_control.h */
typedef struct TpsDeviceSpans TpsDeviceSpans; /* pass/device_spans.h */

/* Prepares the plan's batches in place. Called once a pass, before tps_trainer_train() returns, so
 * it should be quick. They lie in host memory; what it leaves there is moved to the pass's device
 * afterwards. Built-in: "preprocess_dummy_data", which checks that the batches fit the model.
 * Errors: INVALID_ARGUMENT. */
typedef struct
{
  const gchar *name;
  gboolean (*run) (TpsPass *pass, GError **error);
} TpsPreprocess;

/* Wraps pass->model: sets pass->hook_state and pass->ddp. The exchange and the group are connected
 * by then. Built-in: "basic_ddp_model". */
typedef struct
{
  const gchar *name;
  gboolean (*create) (TpsPass *pass, GError **error);
} TpsDdpModelMaker;

/* One step: number `index` of `epoch`, on `batch`, or without data where it is NULL (other trainers
 * have more batches). Built-in: "basic_iteration_step". */
typedef struct
{
  const gchar *name;
  gboolean (*run) (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch,
                   GError **error);
} TpsIterationStep;

/* Runs a whole pass. Built-in: "DdpTrainer". */
typedef struct
{
  const gchar *name;
  /* Reads the plan's trainer_config; called before the pass starts. Errors: INVALID_ARGUMENT. */
  gboolean (*check) (const TpsTrainPlan *plan, GError **error);
  /* On the training thread. Leaves what it connected or created to the pass's owner. */
  gboolean (*run) (TpsPass *pass, GError **error);
  /* Whether its passes may compute on a device other than the CPU: all that it touches of batches,
   * parameters, gradients and pass->output_gradient lies there then, and is for the model's
   * stream. */
  gboolean takes_devices;
  /* Whether it makes its own batches: those of the plan would be ignored. */
  gboolean makes_batches;
} TpsTrainerClass;

/* The training thread's, but for `control`. Everything is owned by the pass. */
struct TpsPass
{
  TpsTrainPlan *plan;
  TpsMetrics *metrics;
  const TpsTrainerClass *trainer;
  const TpsCriterion *criterion;
  const TpsDdpModelMaker *ddp_model;
  const TpsHookStateClass *hook_state_class;
  const TpsHook *hook;
  TpsCompression compression;
  const TpsIterationStep *iteration_step;

  TpsDevice *device; /* where it computes; borrowed */
  TpsModel *model;
  TpsHookState *hook_state;
  guint *owners; /* [buckets] */
  TpsHookContext context;
  TpsDdp *ddp;
  TpsTableClient *tables;       /* NULL unless the trainer class asked for them */
  TpsModelClient *model_client; /* the same */
  TpsTensor output_gradient;    /* of the last forward pass; in the device's memory */
  TpsBuffer *loss;       /* the last forward pass's, FLOAT64 [1], once the stream has passed it */
  TpsDeviceSpans *spans; /* NULL on the CPU */

  TpsPassControl *control;
};

/* -- what parts call, on the training thread -- */

/* Connects what the pass's hook needs: servers, process group. Errors: those of the links and of
 * the group. */
gboolean tps_pass_connect (TpsPass *pass, GError **error);

/* Connects pass->tables to the embedding tables of the plan's servers. Errors: those of the
 * link. */
gboolean tps_pass_connect_tables (TpsPass *pass, GError **error);

/* Connects pass->model_client to the model on the plan's only server. Errors: those of the link. */
gboolean tps_pass_connect_model (TpsPass *pass, GError **error);

/* Creates pass->ddp over pass->model, decides which server owns which bucket, agrees with the other
 * trainers that the layouts fit, and fills the parameters from the plan's seed. */
gboolean tps_pass_create_ddp (TpsPass *pass, GError **error);

/* Model and criterion on a batch, enqueued on the model's stream. The gradient of the output lies
 * in pass->output_gradient. Errors: those of the model's forward pass. */
gboolean tps_pass_forward (TpsPass *pass, const TpsTrainBatch *batch, GError **error);

/* Shows the loss of the last forward pass, which the stream has passed; on the CPU
 * tps_pass_forward() does. */
void tps_pass_show_loss (TpsPass *pass);

/* Counts a finished step: the stream has passed its forward pass, whose loss shows in the status
 * from now on (on the CPU since the forward pass). */
void tps_pass_step_done (TpsPass *pass);

/* Shows how many samples were trained with, in all and in the last whole epoch: of trainer classes
 * that make their own batches. */
void tps_pass_set_samples (TpsPass *pass, gint64 samples, gint64 epoch_samples);

/* Shows the digest of the parameters: of trainer classes without a pass->ddp. */
void tps_pass_set_digest (TpsPass *pass, const guint8 digest[16]);

/* Shows life: progress was made, or (until_ns not 0) it may take until then. */
void tps_pass_alive (TpsPass *pass, gint64 until_ns);

/* Whether the pass was cancelled; a trainer class asks before each step. FALSE with ABORTED if it
 * was. */
gboolean tps_pass_check_cancelled (TpsPass *pass, GError **error);

/* Metrics of the trainer: the originals' record_start, record_end and record_method. On a device
 * start and end are those of what is on the model's stream, measured by the device
 * (device_spans.h). Errors: as in runtime/base/metrics.h. */
gboolean tps_pass_record_start (TpsPass *pass, const gchar *type, const gchar *key,
                                const gchar *name, GError **error);
gboolean tps_pass_record_end (TpsPass *pass, const gchar *type, const gchar *key, GError **error);
/* Calls `method` and records how long it took as `type` (NULL: "method_metric"), `name`. */
void tps_pass_record_method (TpsPass *pass, const gchar *type, const gchar *name,
                             void (*method) (gpointer user_data), gpointer user_data);

/* "epoch,index"; owned by the caller. */
gchar *tps_pass_epoch_key (guint epoch, guint index);

/* -- registries; find: NULL with NOT_FOUND and the known names; what is registered must stay,
 * before any trainer runs; lists: static names, NULL at the end, in an array owned by the caller
 * (g_free) -- */

const TpsTrainerClass *tps_trainer_class_find (const gchar *name, GError **error);
void tps_trainer_class_register (const TpsTrainerClass *klass);
const gchar **tps_trainer_class_list (void);

const TpsPreprocess *tps_preprocess_find (const gchar *name, GError **error);
void tps_preprocess_register (const TpsPreprocess *preprocess);
const gchar **tps_preprocess_list (void);

const TpsDdpModelMaker *tps_ddp_model_maker_find (const gchar *name, GError **error);
void tps_ddp_model_maker_register (const TpsDdpModelMaker *maker);
const gchar **tps_ddp_model_maker_list (void);

const TpsIterationStep *tps_iteration_step_find (const gchar *name, GError **error);
void tps_iteration_step_register (const TpsIterationStep *step);
const gchar **tps_iteration_step_list (void);

/* -- for trainer.c -- */

/* Takes over the plan. The parts that it names are still to be looked up (pass_plan.h). */
TpsPass *tps_pass_new (TpsTrainPlan *plan, const TpsTrainerLinks *links, TpsMetrics *metrics);
void tps_pass_free (TpsPass *pass);

/* Of this process among the roles of its machine. */
guint tps_pass_get_local_rank (const TpsPass *pass);

/* Runs the trainer class, closes connections; on success the digest is in the status. */
gboolean tps_pass_run (TpsPass *pass, GError **error);

/* Thread: any. */
void tps_pass_cancel (TpsPass *pass);
gboolean tps_pass_is_cancelled (TpsPass *pass);
/* Fills everything but state, pass_name and error. */
void tps_pass_get_progress (TpsPass *pass, TpsTrainStatus *status);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPass, tps_pass_free)

G_END_DECLS
