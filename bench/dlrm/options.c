/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/options.h"

#include "runtime/trainer/table_steps/table_steps.h"

static void
add_work (GOptionContext *context, TpsDlrmOptions *o)
{
  const GOptionEntry entries[] = {
    { "trainers", 0, 0, G_OPTION_ARG_INT, &o->n_trainers, "trainers (1)", "N" },
    { "servers", 0, 0, G_OPTION_ARG_INT, &o->n_servers, "servers with the tables (1)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &o->n_threads,
      "BLAS threads of each process, and threads of each process of a peer (1)", "N" },
    { "batch", 0, 0, G_OPTION_ARG_INT64, &o->batch, "samples of a step and trainer (2048)", "N" },
    { "steps", 0, 0, G_OPTION_ARG_INT64, &o->steps, "steps of a round (50)", "N" },
    { "dim", 0, 0, G_OPTION_ARG_INT64, &o->dim, "floats of a row (64)", "N" },
    { "scale", 0, 0, G_OPTION_ARG_DOUBLE, &o->scale,
      "sizes of the 26 tables, relative to Criteo's Kaggle data with 33.8 million rows (0.1)",
      "X" },
    { "ids", 0, 0, G_OPTION_ARG_STRING, &o->ids, "distribution of ids: zipf or uniform (zipf)",
      "NAME" },
    { "exponent", 0, 0, G_OPTION_ARG_DOUBLE, &o->exponent, "of the Zipf distribution (1.05)", "X" },
    { "multi-hot", 0, 0, G_OPTION_ARG_INT64, &o->multi_hot,
      "ids of a bag of the six largest tables (1)", "N" },
    { "data", 0, 0, G_OPTION_ARG_FILENAME, &o->data,
      "samples in Criteo's public TSV format instead of synthetic ones", "FILE" },
    { "optimizer", 0, 0, G_OPTION_ARG_STRING, &o->optimizer,
      "of the tables: sgd, adagrad, rowwise-adagrad, adam or ftrl (rowwise-adagrad); the dense "
      "layers' is SGD",
      "NAME" },
    { "lr", 0, 0, G_OPTION_ARG_DOUBLE, &o->lr, "learning rate of tables and layers (0.05)", "X" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of samples, tables and parameters (0)", "N" },
    { "staleness", 0, 0, G_OPTION_ARG_INT, &o->staleness,
      "pushes of a trainer that its lookups may lack, 0 to 64; 0 = exact (0)", "N" },
    { "no-prefetch", 0, 0, G_OPTION_ARG_NONE, &o->no_prefetch,
      "look up the rows of a step when it begins, not during the step before", NULL },
    { "plain", 0, 0, G_OPTION_ARG_NONE, &o->plain,
      "look up and push all ids of the bags when they are needed: no prefetch, and equal ids are "
      "not combined",
      NULL },
    { "transport", 0, 0, G_OPTION_ARG_STRING, &o->transport,
      "unix (with shared memory) or tcp (unix)", "NAME" },
    { "no-reference", 0, 0, G_OPTION_ARG_NONE, &o->no_reference,
      "leave out the single process with tables of its own", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

static void
add_role (GOptionContext *context, TpsDlrmOptions *o)
{
  const GOptionEntry entries[] = {
    { "role", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->role, NULL, NULL },
    { "rank", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, &o->rank, NULL, NULL },
    { "addresses", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &o->addresses, NULL, NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

static void
make_small (TpsDlrmOptions *o)
{
  o->batch = MIN (o->batch, 64);
  o->steps = MIN (o->steps, 4);
  o->dim = MIN (o->dim, 8);
  o->scale = MIN (o->scale, 1e-4);
}

static gboolean
check_optimizer (TpsDlrmOptions *o, GError **error)
{
  g_autoptr (GError) cause = NULL;
  TpsOptimizerKind kind;

  if (!tps_optimizer_kind_find (o->optimizer, &kind, &cause))
    {
      g_set_error (error, cause->domain, cause->code, "--optimizer=%s: %s", o->optimizer,
                   cause->message);
      return FALSE;
    }
  o->table_optimizer = tps_optimizer_spec (kind, o->lr);
  return tps_optimizer_spec_resolve (&o->table_optimizer, "--optimizer", error);
}

static gboolean
check_numbers (const TpsDlrmOptions *o, GError **error)
{
  return tps_flags_check_number ("trainers", o->n_trainers, 1, 64, error)
         && tps_flags_check_number ("servers", o->n_servers, 1, 64, error)
         && tps_flags_check_number ("threads", o->n_threads, 1, 64, error)
         && tps_flags_check_number ("batch", o->batch, 1, 1 << 20, error)
         && tps_flags_check_number ("steps", o->steps, 1, 100000, error)
         && tps_flags_check_number ("dim", o->dim, 1, 4096, error)
         && tps_flags_check_number ("staleness", o->staleness, 0, TPS_TABLE_STEPS_MAX_STALENESS,
                                    error)
         && tps_flags_check_number ("multi-hot", o->multi_hot, 1, 1000, error)
         && tps_flags_check_factor ("scale", o->scale, FALSE, error)
         && tps_flags_check_factor ("exponent", o->exponent, FALSE, error)
         && tps_flags_check_factor ("lr", o->lr, FALSE, error)
         && (o->scale <= 100 || tps_flags_refuse ("scale", "above 100", "at most 100", error));
}

static gboolean
check (TpsDlrmOptions *o, GError **error)
{
  static const gchar *const peers[] = { TPS_DLRM_PYTORCH, TPS_DLRM_TORCHREC, "both", NULL };
  static const gchar *const ids[] = { "zipf", "uniform", NULL };
  static const gchar *const transports[] = { "unix", "tcp", NULL };

  if (o->run.repeats == TPS_FLAGS_NOT_GIVEN)
    o->run.repeats = o->run.smoke ? 1 : 5;
  tps_flags_default_to (&o->ids, "zipf");
  tps_flags_default_to (&o->optimizer, "rowwise-adagrad");
  tps_flags_default_to (&o->transport, "unix");
  tps_flags_resolve_path (&o->data);
  if (!tps_run_flags_finish (&o->run, peers, error) || !check_numbers (o, error)
      || !tps_flags_check_word ("ids", o->ids, ids, error)
      || !tps_flags_check_word ("transport", o->transport, transports, error)
      || !check_optimizer (o, error))
    return FALSE;
  if (o->run.smoke)
    make_small (o);
  if (o->data != NULL && o->multi_hot > 1)
    return tps_flags_refuse ("multi-hot", "above 1", "1 with --data", error);
  if (o->run.peer != NULL && o->table_optimizer.kind == TPS_OPTIMIZER_FTRL)
    return tps_flags_refuse ("optimizer", o->optimizer, "another one with --peer", error);
  if (o->plain && o->staleness > 0)
    return tps_flags_refuse ("staleness", "above 0", "0 with --plain", error);
  tps_click_shape_init (&o->shape, o->scale, (gsize) o->multi_hot);
  return TRUE;
}

gboolean
tps_dlrm_options_parse (TpsDlrmOptions *o, gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  *o = (TpsDlrmOptions) { .n_trainers = 1,
                          .n_servers = 1,
                          .n_threads = 1,
                          .batch = 2048,
                          .steps = 50,
                          .dim = 64,
                          .scale = 0.1,
                          .exponent = 1.05,
                          .multi_hot = 1,
                          .lr = 0.05 };
  g_option_context_set_summary (
      context, "Trains a recommender (DLRM) on a click log: 26 embedding tables on servers, dense "
               "layers averaged by\nall-reduce. Reports samples per second, the phases of a step, "
               "and the quality of the predictions\nnext to those of a single process.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  add_work (context, o);
  add_role (context, o);
  tps_run_flags_add (context, &o->run,
                     "train the same samples, round by round in turn, with a process for each "
                     "trainer, and print the ratios: pytorch (EmbeddingBags with sparse gradients, "
                     "data parallel); torchrec (FBGEMM's fused tables, distributed over the "
                     "processes); both");
  return tps_flags_parse (context, argc, argv, &o->given, error) && check (o, error);
}

void
tps_dlrm_options_clear (TpsDlrmOptions *o)
{
  g_free (o->ids);
  g_free (o->data);
  g_free (o->optimizer);
  g_free (o->transport);
  g_free (o->role);
  g_free (o->addresses);
  g_strfreev (o->given);
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_dlrm_options_describe (const TpsDlrmOptions *o)
{
  GPtrArray *described = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (described, "trainers", o->n_trainers);
  tps_flags_add_number (described, "servers", o->n_servers);
  tps_flags_add_number (described, "threads", o->n_threads);
  tps_flags_add_number (described, "batch", (gdouble) o->batch);
  tps_flags_add_number (described, "steps", (gdouble) o->steps);
  tps_flags_add_number (described, "dim", (gdouble) o->dim);
  tps_flags_add_number (described, "scale", o->scale);
  tps_flags_add_number (described, "rows", (gdouble) tps_click_shape_count_rows (&o->shape));
  tps_flags_add_text (described, "ids", o->ids);
  tps_flags_add_number (described, "exponent", o->exponent);
  tps_flags_add_number (described, "multi-hot", (gdouble) o->multi_hot);
  tps_flags_add_text (described, "data", o->data);
  tps_flags_add_text (described, "optimizer", o->optimizer);
  tps_flags_add_number (described, "lr", o->lr);
  tps_flags_add_number (described, "seed", (gdouble) o->seed);
  tps_flags_add_number (described, "staleness", o->staleness);
  tps_flags_add_text (described, "no-prefetch", o->no_prefetch ? "true" : "false");
  tps_flags_add_text (described, "plain", o->plain ? "true" : "false");
  tps_flags_add_text (described, "transport", o->transport);
  tps_flags_add_text (described, "no-reference", o->no_reference ? "true" : "false");
  tps_flags_add_text (described, "peer", o->run.peer);
  tps_flags_add_number (described, "repeats", o->run.repeats);
  return described;
}

guint
tps_dlrm_options_get_warm_up (const TpsDlrmOptions *o)
{
  return (guint) MAX (2, o->steps / 5);
}

void
tps_dlrm_options_init_log (const TpsDlrmOptions *o, TpsSyntheticLog *log)
{
  tps_synthetic_log_init (log, &o->shape, o->seed, g_str_equal (o->ids, "uniform"), o->exponent);
}
