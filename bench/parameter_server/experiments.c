/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/parameter_server/experiments.h"

#include "runtime/base/error.h"

/* The scripts of the originals with batches of 10 need data and a model of 100 samples and
 * features. */
#define OF_100                                                                             \
  .data = "DummyData100", .model = "DummyModelSparse100", .rpc_timeout = 30, .epochs = 10, \
  .batch_size = 10
#define OF_1024 .data = "DummyData", .rpc_timeout = 120, .epochs = 1, .batch_size = 32

/* The originals always compute on GPUs. Here an experiment uses a GPU only if it needs one: for
 * NCCL, or for tensors that stay on a device ("cuda" in the name). */
static const TpsExperiment experiments[] = {
  { .name = "ddp_gloo_allreduce",
    .ddp_hook = "allreduce_hook",
    .ntrainer = 2,
    .backend = "gloo",
    .model = "DummyModelSparse",
    OF_1024 },
  { .name = "ddp_gloo_nccl_allreduce",
    .ddp_hook = "hybrid_hook",
    .ntrainer = 2,
    .backend = "multi",
    .model = "DummyModelSparse",
    OF_1024 },
  { .name = "ddp_cpu_rpc",
    .ddp_hook = "rpc_hook",
    .ntrainer = 2,
    .server = "AverageParameterServer",
    .nserver = 1,
    .backend = "gloo",
    OF_100 },
  { .name = "ddp_batch_cpu_rpc",
    .ddp_hook = "rpc_hook",
    .ntrainer = 2,
    .server = "AverageBatchParameterServer",
    .nserver = 1,
    .backend = "gloo",
    OF_100 },
  { .name = "ddp_nccl_allreduce",
    .ddp_hook = "allreduce_hook",
    .ncudatrainer = 2,
    .backend = "nccl",
    .model = "DummyModel",
    OF_1024 },
  { .name = "ddp_cuda_rpc",
    .ddp_hook = "rpc_hook",
    .ncudatrainer = 2,
    .server = "AverageParameterServer",
    .ncudaserver = 1,
    .backend = "gloo",
    OF_100 },
  { .name = "ddp_batch_cuda_rpc",
    .ddp_hook = "rpc_hook",
    .ncudatrainer = 2,
    .server = "AverageBatchParameterServer",
    .ncudaserver = 1,
    .backend = "gloo",
    OF_100 },
  { .name = "ddp_cpu_sparse_rpc_nccl_allreduce",
    .ddp_hook = "sparse_rpc_hook",
    .ncudatrainer = 2,
    .server = "AverageParameterServer",
    .nserver = 1,
    .backend = "nccl",
    OF_100 },
  { .name = "ddp_cuda_sparse_rpc_nccl_allreduce",
    .ddp_hook = "sparse_rpc_hook",
    .ncudatrainer = 2,
    .server = "AverageParameterServer",
    .ncudaserver = 1,
    .backend = "nccl",
    OF_100 },
  { .name = "ddp_batch_cpu_sparse_rpc_nccl_allreduce",
    .ddp_hook = "sparse_rpc_hook",
    .ncudatrainer = 2,
    .server = "AverageBatchParameterServer",
    .nserver = 1,
    .backend = "nccl",
    OF_100 },
  { .name = "ddp_batch_cuda_sparse_rpc_nccl_allreduce",
    .ddp_hook = "sparse_rpc_hook",
    .ncudatrainer = 2,
    .server = "AverageBatchParameterServer",
    .ncudaserver = 1,
    .backend = "nccl",
    OF_100 },
};

static gboolean
needs_gpu (const TpsExperiment *experiment)
{
  return experiment->ncudatrainer + experiment->ncudaserver > 0;
}

gchar *
tps_experiment_list (gboolean with_gpu)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (experiments); i++)
    if (needs_gpu (&experiments[i]) == with_gpu)
      g_string_append_printf (text, "%s%s", text->len > 0 ? " " : "", experiments[i].name);
  return g_string_free (text, FALSE);
}

const TpsExperiment *
tps_experiment_find (const gchar *name, GError **error)
{
  g_autofree gchar *plain = tps_experiment_list (FALSE);
  g_autofree gchar *with_gpu = tps_experiment_list (TRUE);

  for (guint i = 0; i < G_N_ELEMENTS (experiments); i++)
    if (g_str_equal (experiments[i].name, name))
      return &experiments[i];
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "--experiment=%s: expected %s; with a GPU %s",
               name, plain, with_gpu);
  return NULL;
}
