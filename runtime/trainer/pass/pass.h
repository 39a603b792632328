/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One training pass, and the named parts from which it is assembled. This is the interface for
 * programs that add a trainer, a model wrapper, an iteration step or a preprocessing of their own.
 *
 * Sequence: tps_trainer_train() creates a pass from a plan (checks, model, preprocessing). The
 * trainer class runs it on the training thread. Then the connections of the pass are closed, and
 * its status is final.
 */

#pragma once

#include "runtime/trainer/ddp/ddp.h"
#include "runtime/trainer/ports/hook.h"
#include "runtime/tensor/train_plan.h"
#include "runtime/trainer/pass/trainer.h"
#include "runtime/ports/table_client.h"
#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

typedef struct TpsPass TpsPass;
typedef struct TpsPassControl TpsPassControl; /* pass.c */
typedef struct TpsDeviceSpans TpsDeviceSpans; /* pass/device_spans.h */
typedef struct TpsPiecePlan TpsPiecePlan;     /* pass/piece_plan.h */

/* Prepares the plan's batches in place. Called once for each pass, before tps_trainer_train()
 * returns, so it should be fast. The batches lie in host memory and are moved to the pass's device
 * afterwards. Built-in: "preprocess_dummy_data", which checks that the batches fit the model.
 * Errors: INVALID_ARGUMENT. */
typedef struct
{
  const gchar *name;
  gboolean (*run) (TpsPass *pass, GError **error);
} TpsPreprocess;

/* Wraps pass->model: sets pass->hook_state and pass->ddp. The exchange and the group are already
 * connected. Built-in: "basic_ddp_model". */
typedef struct
{
  const gchar *name;
  gboolean (*create) (TpsPass *pass, GError **error);
} TpsDdpModelMaker;

/* Runs step `index` of `epoch` on `batch`. If `batch` is NULL, the step has no data, because other
 * trainers have more batches. Built-in: "basic_iteration_step". */
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
  /* Checks the plan's trainer_config; called before the pass starts. Errors: INVALID_ARGUMENT. */
  gboolean (*check) (const TpsTrainPlan *plan, GError **error);
  /* Runs the pass on the training thread. The owner of the pass closes the connections and frees
   * the objects that this function stores in the pass. */
  gboolean (*run) (TpsPass *pass, GError **error);
  /* TRUE if passes of this class may compute on a device other than the CPU. All batches,
   * parameters and gradients, and pass->output_gradient, then lie in the memory of this device and
   * must be used on the model's stream. */
  gboolean takes_devices;
  /* TRUE if the class generates its own batches and ignores those of the plan. */
  gboolean makes_batches;
} TpsTrainerClass;

/* Only the training thread may use the members, except for `control`. The pass owns its members;
 * registry entries and `device` are static. */
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

  TpsDevice *device; /* the device of the model; borrowed */
  TpsModel *model;
  TpsHookState *hook_state;
  TpsPiecePlan *pieces; /* NULL without servers */
  TpsHookContext context;
  TpsDdp *ddp;
  TpsTableClient *tables;       /* NULL unless the trainer class has connected to the tables */
  TpsModelClient *model_client; /* NULL unless the trainer class has connected to the model */
  TpsTensor output_gradient;    /* of the last forward pass; in the device's memory */
  /* of the last forward pass, FLOAT64 [1], valid when the stream has passed that forward pass */
  TpsBuffer *loss;
  TpsDeviceSpans *spans; /* NULL on the CPU */

  TpsBudget *budget; /* of the links; NULL = the default pool's */
  gsize n_charged;   /* to `budget`, until the memory is released */

  TpsPassControl *control;
};

/* -- for parts, on the training thread -- */

/* Connects the servers and the process group that the pass's hook needs. Errors: those of the links
 * and of the group; PERMISSION_DENIED (TpsTrainerLinks.no_plain_groups); ABORTED (cancelled). */
gboolean tps_pass_connect (TpsPass *pass, GError **error);

/* Connects pass->tables to the embedding tables of the plan's servers. Each result of a lookup lies
 * in host memory or in memory of `lookup_device`; NULL = all results lie in host memory. The caller
 * must not release a result before the work that reads it has ended. Errors: UNAVAILABLE (this
 * process cannot reach tables); those of the link; ABORTED (cancelled). */
gboolean tps_pass_connect_tables (TpsPass *pass, TpsDevice *lookup_device, GError **error);

/* Connects pass->model_client to the model on the plan's only server. Errors: UNAVAILABLE (this
 * process cannot reach models); those of the link; ABORTED (cancelled). */
gboolean tps_pass_connect_model (TpsPass *pass, GError **error);

/* Creates pass->ddp over pass->model, assigns buckets to servers, checks with the other trainers
 * that the layouts are equal, and fills the parameters from the plan's seed. Errors: those of
 * tps_ddp_new(), tps_ddp_check_layouts() and tps_model_fill_parameters(). */
gboolean tps_pass_create_ddp (TpsPass *pass, GError **error);

/* Enqueues the forward pass of the model and the criterion for a batch, on the model's stream. The
 * gradient of the output is written to pass->output_gradient. Errors: those of the model's forward
 * pass; RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_pass_forward (TpsPass *pass, const TpsTrainBatch *batch, GError **error);

/* Publishes the loss of the last forward pass in the status. The stream must have passed the
 * forward pass. On the CPU, tps_pass_forward() publishes the loss. */
void tps_pass_show_loss (TpsPass *pass);

/* Counts a finished step and publishes its loss in the status. The stream must have passed the
 * forward pass of the step. On the CPU, tps_pass_forward() has already published the loss. */
void tps_pass_step_done (TpsPass *pass);

/* Sets the number of samples trained, in total and in the last whole epoch, for trainer classes
 * that generate their own batches. */
void tps_pass_set_samples (TpsPass *pass, gint64 samples, gint64 epoch_samples);

/* Sets the digest of the parameters, for trainer classes without pass->ddp. */
void tps_pass_set_digest (TpsPass *pass, const guint8 digest[16]);

/* Reports progress. If `until_ns` (monotonic) is not 0, the pass counts as alive until then without
 * a further report. */
void tps_pass_alive (TpsPass *pass, gint64 until_ns);

/* Returns FALSE with ABORTED if the pass has been cancelled. A trainer class must call this before
 * each step. */
gboolean tps_pass_check_cancelled (TpsPass *pass, GError **error);

/* Metrics of the trainer: record_start, record_end and record_method of the PyTorch benchmarks that
 * bench/ repeats. On a device, record_start() and record_end() measure the work queued on the
 * model's stream, by the device's clock (device_spans.h). Errors: as in runtime/base/metrics.h. */
gboolean tps_pass_record_start (TpsPass *pass, const gchar *type, const gchar *key,
                                const gchar *name, GError **error);
gboolean tps_pass_record_end (TpsPass *pass, const gchar *type, const gchar *key, GError **error);
/* Calls `method` and records its duration, by the host's clock on every device, under `type` (NULL:
 * "method_metric") and `name`. */
void tps_pass_record_method (TpsPass *pass, const gchar *type, const gchar *name,
                             void (*method) (gpointer user_data), gpointer user_data);

/* Returns the metric key "epoch,index" of a step; owned by the caller. */
gchar *tps_pass_epoch_key (guint epoch, guint index);

TPS_DECLARE_REGISTRY (TpsTrainerClass, tps_trainer_class);
TPS_DECLARE_REGISTRY (TpsPreprocess, tps_preprocess);
TPS_DECLARE_REGISTRY (TpsDdpModelMaker, tps_ddp_model_maker);
TPS_DECLARE_REGISTRY (TpsIterationStep, tps_iteration_step);

/* -- for trainer.c -- */

/* Creates a pass, owned by the caller, and takes over the plan. tps_pass_resolve() (pass_plan.h)
 * must then look up the parts that the plan names. */
TpsPass *tps_pass_new (TpsTrainPlan *plan, const TpsTrainerLinks *links, TpsMetrics *metrics);
void tps_pass_free (TpsPass *pass);

/* Returns the number of this process among the roles of its machine. */
guint tps_pass_get_local_rank (const TpsPass *pass);

/* Runs the trainer class, closes the connections and releases the memory of the pass. On success,
 * the status contains the digest of the parameters. Errors: those of the trainer class. */
gboolean tps_pass_run (TpsPass *pass, GError **error);

/* Cancels the pass, which soon ends with ABORTED. tps_pass_is_cancelled() returns TRUE from then
 * on. Thread: any. */
void tps_pass_cancel (TpsPass *pass);
gboolean tps_pass_is_cancelled (TpsPass *pass);
/* Fills all fields but state, pass_name and error. Thread: any. */
void tps_pass_get_progress (TpsPass *pass, TpsTrainStatus *status);

G_END_DECLS
