/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/list.h"

#include <stdio.h>

#include "bench/configuration.h"
#include "runtime/averaging/server_kind.h"
#include "runtime/ddp/hook.h"
#include "runtime/ddp/pass.h"
#include "runtime/nn/dataset.h"
#include "runtime/nn/model.h"
#include "runtime/version.h"

static void
print_names (const gchar *flag, const gchar **names)
{
  printf ("--%s:", flag);
  for (guint i = 0; names[i] != NULL; i++)
    printf (" %s", names[i]);
  printf ("\n");
  g_free (names);
}

static void
print_ids (const gchar *flag, const gchar *built_in)
{
  g_auto (GStrv) ids = tps_bench_configuration_list (built_in);

  printf ("--%s:", flag);
  for (guint i = 0; ids[i] != NULL; i++)
    printf (" %s", ids[i]);
  printf ("\n");
}

static void
print_server_kinds (void)
{
  g_autofree const TpsServerKind **kinds = tps_server_kind_list ();

  printf ("--server:");
  for (guint i = 0; kinds[i] != NULL; i++)
    printf (" %s", kinds[i]->name);
  printf ("\n");
}

void
tps_bench_print_list (gboolean version_only)
{
  if (version_only)
    {
      printf ("parameter_server (ThriftPS) %s\n", TPS_VERSION);
      return;
    }
  print_ids ("data", tps_bench_data_configurations);
  print_ids ("model", tps_bench_model_configurations);
  print_names ("trainer", tps_trainer_class_list ());
  print_server_kinds ();
  print_names ("ddp-hook", tps_hook_list ());
  print_names ("hook-state", tps_hook_state_class_list ());
  print_names ("create-ddp-model", tps_ddp_model_maker_list ());
  print_names ("create-criterion", tps_criterion_list ());
  print_names ("iteration-step", tps_iteration_step_list ());
  print_names ("preprocess-data", tps_preprocess_list ());
  printf (
      "--backend: gloo nccl multi\n--transport: unix tcp\n--reduce: mean sum\n--partition: size trainers\n"
      "--peer: pytorch\n");
  print_names ("data-config-path, data_class", tps_data_class_list ());
  print_names ("model-config-path, model_class", tps_model_class_list ());
}
