/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A program that adds a part to each registry of trainers, and trains with all of them: data, a
 * model, a criterion, a hook and a trainer. tests/plugin/package/own_server.c adds a kind of
 * averaging server. */

#include <pthread.h>
#include <stdio.h>

#include "runtime/trainer/nn/dataset.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/pass/pass.h"

#define N_SAMPLES 32
#define N_IDS 10

/* ---- data: ids 0, 1, 2, ..., one class per id ---------------------------------------------- */

static gboolean
generate (GVariant *config, gint64 seed, TpsDataset *dataset, GError **error)
{
  gint64 *ids, *classes;

  (void) config;
  (void) error;
  tps_tensor_init_2d (&dataset->input, TPS_DTYPE_INT64, N_SAMPLES, 1);
  tps_tensor_init_1d (&dataset->target, TPS_DTYPE_INT64, N_SAMPLES);
  ids = tps_tensor_data (&dataset->input);
  classes = tps_tensor_data (&dataset->target);
  for (gint64 i = 0; i < N_SAMPLES; i++)
    ids[i] = classes[i] = (seed + i) % N_IDS;
  return TRUE;
}

static const TpsDataClass count_data = { .name = "CountData", .generate = generate };

/* ---- a model: a built-in one that counts its forward passes --------------------------------- */

static const TpsModelClass *dummy_model;
static TpsModelClass counted_model;
static guint n_forward;

static TpsModel *
create_counted (GVariant *config, TpsDevice *device, GError **error)
{
  TpsModel *model = dummy_model->create (config, device, error);

  if (model != NULL)
    model->klass = &counted_model;
  return model;
}

static gboolean
forward_counted (TpsModel *model, TpsTensorView input, TpsTensorView *output, GError **error)
{
  n_forward++;
  return dummy_model->forward (model, input, output, error);
}

/* ---- a criterion: twice the cross entropy ---------------------------------------------------- */

static const TpsCriterion *cross_entropy;

static void
forward_backward_twice (TpsStream *stream, TpsTensorView output, TpsTensorView target,
                        gdouble *loss, gfloat *output_gradient)
{
  cross_entropy->forward_backward (stream, output, target, loss, output_gradient);
  *loss *= 2;
  for (gint64 i = 0; i < tps_shape_n_elems (&output.shape); i++)
    output_gradient[i] *= 2;
}

static const TpsCriterion twice = { .name = "twice_cel",
                                    .forward_backward = forward_backward_twice };

/* ---- a hook without communication ------------------------------------------------------------ */

static guint n_buckets;

static void
reduce_alone (const TpsHookContext *context, TpsBucketCall *call)
{
  TpsGradient reduced = { 0 };

  (void) context;
  n_buckets++;
  tps_gradient_init_ref (&reduced, &call->contribution);
  tps_bucket_call_finish (call, &reduced, NULL);
}

static const TpsHook alone = { .name = "alone_hook", .reduce = reduce_alone };

/* ---- a trainer: a built-in one that prints the end of its pass ------------------------------- */

static const TpsTrainerClass *ddp_trainer;
static TpsTrainerClass telling_trainer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* sanitizers do not see GMutex */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static gboolean has_ended, has_succeeded;

static gboolean
run_and_tell (TpsPass *pass, GError **error)
{
  gboolean ok = ddp_trainer->run (pass, error);

  if (!ok)
    fprintf (stderr, "%s\n", (*error)->message);
  pthread_mutex_lock (&lock);
  has_ended = TRUE;
  has_succeeded = ok;
  pthread_cond_signal (&ended);
  pthread_mutex_unlock (&lock);
  return ok;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static gboolean
register_parts (GError **error)
{
  dummy_model = tps_model_class_find ("DummyModel", error);
  cross_entropy = tps_criterion_find ("cel", error);
  ddp_trainer = tps_trainer_class_find ("DdpTrainer", error);
  if (dummy_model == NULL || cross_entropy == NULL || ddp_trainer == NULL)
    return FALSE;
  counted_model = *dummy_model;
  counted_model.name = "CountedModel";
  counted_model.create = create_counted;
  counted_model.forward = forward_counted;
  telling_trainer = *ddp_trainer;
  telling_trainer.name = "TellingTrainer";
  telling_trainer.run = run_and_tell;
  tps_data_class_register (&count_data);
  tps_model_class_register (&counted_model);
  tps_criterion_register (&twice);
  tps_hook_register (&alone);
  tps_trainer_class_register (&telling_trainer);
  return TRUE;
}

static void
set (gchar **field, const gchar *value)
{
  g_free (*field);
  *field = g_strdup (value);
}

static GVariant *
make_model_config (void)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "num_embeddings", "x", (gint64) N_IDS);
  g_variant_dict_insert (&dict, "embedding_dim", "x", (gint64) N_IDS);
  g_variant_dict_insert (&dict, "dense_input_size", "x", (gint64) N_IDS);
  g_variant_dict_insert (&dict, "dense_output_size", "x", (gint64) N_IDS);
  g_variant_dict_insert (&dict, "dense_layers_count", "x", (gint64) 1);
  g_variant_dict_insert (&dict, "sparse", "b", FALSE);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* Adds the batches of one trainer to the plan, which owns them. */
static gboolean
make_batches (TpsTrainPlan *plan, GError **error)
{
  const TpsDataClass *data = tps_data_class_find ("CountData", error);
  g_auto (TpsDataset) dataset = { .input = { .buffer = NULL } };
  GPtrArray *dealt;
  GArray *batches;

  if (data == NULL || !data->generate (NULL, 3, &dataset, error))
    return FALSE;
  dealt = tps_dataset_deal (&dataset, 8, 1);
  batches = g_ptr_array_index (dealt, 0);
  for (guint i = 0; i < batches->len; i++)
    {
      TpsTrainBatch *from = &g_array_index (batches, TpsTrainBatch, i);
      TpsTrainBatch batch = { .input = { .buffer = NULL } };

      tps_tensor_init_ref (&batch.input, &from->input);
      tps_tensor_init_ref (&batch.target, &from->target);
      tps_train_plan_take_batch (plan, &batch);
    }
  plan->steps_per_epoch = batches->len;
  g_ptr_array_unref (dealt);
  return TRUE;
}

static TpsTrainPlan *
make_plan (GError **error)
{
  g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();

  set (&plan->pass_name, "own");
  set (&plan->model_class, "CountedModel");
  g_clear_pointer (&plan->model_config, g_variant_unref);
  plan->model_config = make_model_config ();
  set (&plan->trainer, "TellingTrainer");
  set (&plan->create_criterion, "twice_cel");
  set (&plan->ddp_hook, "alone_hook");
  plan->epochs = 2;
  return make_batches (plan, error) ? g_steal_pointer (&plan) : NULL;
}

static gboolean
train (GError **error)
{
  const TpsTrainerLinks links = { .host = NULL };
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (NULL, NULL);
  g_autoptr (TpsTrainer) trainer = tps_trainer_new (&links, metrics);
  TpsTrainPlan *plan = make_plan (error);

  if (plan == NULL || !tps_trainer_train (trainer, plan, error))
    return FALSE;
  pthread_mutex_lock (&lock);
  while (!has_ended)
    pthread_cond_wait (&ended, &lock);
  pthread_mutex_unlock (&lock);
  printf ("%s: %u forward passes, %u buckets\n", has_succeeded ? "succeeded" : "failed", n_forward,
          n_buckets);
  return TRUE;
}

int
main (void)
{
  g_autoptr (GError) error = NULL;

  if (register_parts (&error) && train (&error))
    return 0;
  fprintf (stderr, "%s\n", error->message);
  return 1;
}
