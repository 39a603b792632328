/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/train_plan.h"

#include "runtime/base/growing_array.h"

static GVariant *
no_arguments (void)
{
  return g_variant_ref_sink (g_variant_new_array (G_VARIANT_TYPE ("{sv}"), NULL, 0));
}

TpsTrainPlan *
tps_train_plan_new (void)
{
  TpsTrainPlan *plan = g_new0 (TpsTrainPlan, 1);

  plan->pass_name = g_strdup ("");
  plan->world_size = 1;
  plan->model_class = g_strdup ("DummyModel");
  plan->model_config = no_arguments ();
  plan->epochs = 1;
  plan->trainer = g_strdup ("DdpTrainer");
  plan->trainer_config = no_arguments ();
  plan->backend = g_strdup ("gloo");
  plan->preprocess_data = g_strdup ("preprocess_dummy_data");
  plan->create_criterion = g_strdup ("cel");
  plan->create_ddp_model = g_strdup ("basic_ddp_model");
  plan->hook_state = g_strdup ("BasicHookState");
  plan->ddp_hook = g_strdup ("allreduce_hook");
  plan->iteration_step = g_strdup ("basic_iteration_step");
  plan->first_bucket_mib = 1;
  plan->bucket_cap_mib = 25;
  plan->learning_rate = 1e-4;
  plan->rpc_timeout_ns = G_GINT64_CONSTANT (30) * 1000 * 1000 * 1000;
  plan->rendezvous = g_strdup ("");
  plan->reduce = g_strdup ("mean");
  plan->compress = g_strdup ("none");
  plan->device = g_strdup ("cpu");
  return plan;
}

static gpointer
append (gpointer elems, guint *n_elems, gsize elem_size)
{
  g_autoptr (GError) error = NULL;
  gpointer elem = tps_growing_array_add (elems, n_elems, elem_size, &error);

  if (elem == NULL)
    g_error ("%s", error->message);
  return elem;
}

void
tps_train_plan_take_batch (TpsTrainPlan *plan, TpsTrainBatch *batch)
{
  TpsTrainBatch *added = append (&plan->batches, &plan->n_batches, sizeof *batch);

  tps_tensor_move (&added->input, &batch->input);
  tps_tensor_move (&added->target, &batch->target);
}

void
tps_train_plan_clear_batches (TpsTrainPlan *plan)
{
  for (guint i = 0; i < plan->n_batches; i++)
    tps_train_batch_clear (&plan->batches[i]);
  g_clear_pointer (&plan->batches, g_free);
  plan->n_batches = 0;
}

void
tps_train_plan_add_server (TpsTrainPlan *plan, gint32 rank, const gchar *address)
{
  TpsServerAddress *server = append (&plan->servers, &plan->n_servers, sizeof *server);

  server->rank = rank;
  server->address = g_strdup (address);
}

void
tps_train_plan_clear_servers (TpsTrainPlan *plan)
{
  for (guint i = 0; i < plan->n_servers; i++)
    g_free (plan->servers[i].address);
  g_clear_pointer (&plan->servers, g_free);
  plan->n_servers = 0;
}

void
tps_train_plan_free (TpsTrainPlan *plan)
{
  if (plan == NULL)
    return;
  g_free (plan->pass_name);
  g_free (plan->model_class);
  g_clear_pointer (&plan->model_config, g_variant_unref);
  tps_train_plan_clear_batches (plan);
  g_free (plan->trainer);
  g_clear_pointer (&plan->trainer_config, g_variant_unref);
  g_free (plan->backend);
  g_free (plan->preprocess_data);
  g_free (plan->create_criterion);
  g_free (plan->create_ddp_model);
  g_free (plan->hook_state);
  g_free (plan->ddp_hook);
  g_free (plan->iteration_step);
  tps_train_plan_clear_servers (plan);
  g_free (plan->rendezvous);
  g_free (plan->reduce);
  g_free (plan->compress);
  g_free (plan->device);
  g_free (plan);
}

void
tps_train_status_clear (TpsTrainStatus *status)
{
  g_clear_pointer (&status->pass_name, g_free);
  g_clear_error (&status->error);
}
