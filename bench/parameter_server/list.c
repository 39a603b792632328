/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/parameter_server/list.h"

#include <stdio.h>

#include "bench/parameter_server/configuration.h"
#include "bench/parameter_server/experiments.h"
#include "runtime/server/averaging/server_kind.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/ports/hook.h"
#include "runtime/trainer/pass/pass.h"
#include "runtime/trainer/ports/process_group.h"
#include "runtime/trainer/nn/dataset.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/base/error.h"

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

/* Lists the trainers that train on given batches, because this program distributes batches. */
static const gchar **
list_trainers (void)
{
  const gchar **names = tps_trainer_class_list ();
  guint n = 0;

  for (guint i = 0; names[i] != NULL; i++)
    if (!tps_trainer_class_find (names[i], NULL)->makes_batches)
      names[n++] = names[i];
  names[n] = NULL;
  return names;
}

static gboolean
check_trainer (const gchar *name, GError **error)
{
  const TpsTrainerClass *klass = tps_trainer_class_find (name, NULL);
  g_autofree const gchar **names = NULL;
  g_autofree gchar *known = NULL;

  if (klass != NULL && !klass->makes_batches)
    return TRUE;
  names = list_trainers ();
  known = g_strjoinv (", ", (gchar **) (gsize) names);
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s \"%s\"; known: %s",
               klass == NULL ? "unknown trainer"
                             : "this program distributes batches, which are not used by",
               name, known);
  return FALSE;
}

static void
print_experiments (void)
{
  g_autofree gchar *plain = tps_experiment_list (FALSE);
  g_autofree gchar *with_gpu = tps_experiment_list (TRUE);

  printf ("--experiment: %s\n--experiment, with a GPU: %s\n", plain, with_gpu);
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
tps_bench_print_list (void)
{
  print_experiments ();
  print_ids ("data", tps_bench_data_configurations);
  print_ids ("model", tps_bench_model_configurations);
  print_names ("trainer", list_trainers ());
  print_server_kinds ();
  print_names ("ddp-hook", tps_hook_list ());
  print_names ("compress", tps_compression_list ());
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

static gboolean
check (const gchar *flag, gboolean is_known, GError **error)
{
  if (!is_known)
    g_prefix_error (error, "--%s: ", flag);
  return is_known;
}

/* Checks the backend. The launcher checks its library, too, because trainers would report a missing
 * library too late. */
static gboolean
check_backend (const TpsBenchOptions *o, GError **error)
{
  const TpsHook *hook = tps_hook_find (o->ddp_hook, NULL);

  if (o->world.rank < 0 && tps_bench_options_count_trainers (o) > 1
      && (hook->needs & TPS_HOOK_NEEDS_GROUP) != 0)
    return tps_process_group_check_usable (o->backend, error);
  return tps_process_group_check_backend (o->backend, error);
}

gboolean
tps_bench_check_names (const TpsBenchOptions *o, const gchar *data_class, const gchar *model_class,
                       GError **error)
{
  TpsCompression compression;

  return check ("data", tps_data_class_find (data_class, error) != NULL, error)
         && check ("model", tps_model_class_find (model_class, error) != NULL, error)
         && check ("trainer", check_trainer (o->trainer, error), error)
         && check ("server", tps_server_kind_find (o->server, error) != NULL, error)
         && check ("ddp-hook", tps_hook_find (o->ddp_hook, error) != NULL, error)
         && check ("compress", tps_compression_parse (o->compress, &compression, error), error)
         && check ("hook-state", tps_hook_state_class_find (o->hook_state, error) != NULL, error)
         && check ("create-ddp-model",
                   tps_ddp_model_maker_find (o->create_ddp_model, error) != NULL, error)
         && check ("create-criterion", tps_criterion_find (o->create_criterion, error) != NULL,
                   error)
         && check ("iteration-step", tps_iteration_step_find (o->iteration_step, error) != NULL,
                   error)
         && check ("preprocess-data", tps_preprocess_find (o->preprocess_data, error) != NULL,
                   error)
         && check ("backend", check_backend (o, error), error);
}

gchar **
tps_bench_list_classes (void)
{
  g_autofree const gchar **trainers = tps_trainer_class_list ();
  g_autofree const TpsServerKind **kinds = tps_server_kind_list ();
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  g_strv_builder_addv (names, (const char **) trainers);
  for (guint i = 0; kinds[i] != NULL; i++)
    g_strv_builder_add (names, kinds[i]->name);
  return g_strv_builder_end (names);
}
