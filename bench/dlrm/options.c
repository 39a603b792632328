/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/options.h"

#include <math.h>

#include "runtime/trainer/table_steps/table_steps.h"

/* -- options -- */

#define FIELD(name) G_STRUCT_OFFSET (TpsDlrmOptions, name)

static const TpsFlag flags[] = {
  { "trainers", G_OPTION_ARG_INT, FIELD (n_trainers), "trainers (1)", "N", 1, 1, 64 },
  { "servers", G_OPTION_ARG_INT, FIELD (n_servers), "servers with the tables (1)", "N", 1, 1, 64 },
  { "threads", G_OPTION_ARG_INT, FIELD (n_threads),
    "BLAS threads of each process, and threads of each process of a peer (1)", "N", 1, 1, 64 },
  { "batch", G_OPTION_ARG_INT64, FIELD (batch), "samples of a step and trainer (2048)", "N", 2048,
    1, 1 << 20 },
  { "steps", G_OPTION_ARG_INT64, FIELD (steps), "steps of a round (50)", "N", 50, 1, 100000 },
  { "dim", G_OPTION_ARG_INT64, FIELD (dim), "floats of a row (64)", "N", 64, 1, 4096 },
  { "scale", G_OPTION_ARG_DOUBLE, FIELD (scale),
    "sizes of the 26 tables, relative to Criteo's Kaggle data with 33.8 million rows (0.1)", "X",
    0.1, TPS_FLAGS_ABOVE_0, 100 },
  { "ids", G_OPTION_ARG_STRING, FIELD (ids), "distribution of ids: zipf or uniform (zipf)", "NAME",
    .text = "zipf", .words = "zipf uniform" },
  { "exponent", G_OPTION_ARG_DOUBLE, FIELD (exponent), "of the Zipf distribution (1.05)", "X", 1.05,
    TPS_FLAGS_ABOVE_0 },
  { "multi-hot", G_OPTION_ARG_INT64, FIELD (multi_hot),
    "ids of a bag of the six largest tables (1)", "N", 1, 1, 1000 },
  { "optimizer", G_OPTION_ARG_STRING, FIELD (optimizer),
    "of the tables: sgd, adagrad, rowwise-adagrad, adam or ftrl (rowwise-adagrad); the dense "
    "layers' is SGD",
    "NAME", .text = "rowwise-adagrad" },
  { "lr", G_OPTION_ARG_DOUBLE, FIELD (lr), "learning rate of tables and layers (0.05)", "X", 0.05,
    TPS_FLAGS_ABOVE_0 },
  { "seed", G_OPTION_ARG_INT64, FIELD (seed), "of samples, tables and parameters (0)", "N" },
  { "staleness", G_OPTION_ARG_INT, FIELD (staleness),
    "pushes of a trainer that its lookups may lack, 0 to 64; 0 = exact (0)", "N", 0, 0,
    TPS_TABLE_STEPS_MAX_STALENESS },
  { "no-prefetch", G_OPTION_ARG_NONE, FIELD (no_prefetch),
    "look up the rows of a step when it begins, not during the step before" },
  { "transport", G_OPTION_ARG_STRING, FIELD (transport), "unix (with shared memory) or tcp (unix)",
    "NAME", .text = "unix", .words = "unix tcp" },
  { "no-reference", G_OPTION_ARG_NONE, FIELD (no_reference),
    "leave out the single process with tables of its own" },
  { "peer", G_OPTION_ARG_STRING, FIELD (run.peer),
    "train the same samples, round by round in turn, with a process for each trainer, and print the "
    "ratios: pytorch (EmbeddingBags with sparse gradients, data parallel); torchrec (FBGEMM's fused "
    "tables, distributed over the processes); both",
    "NAME", .words = TPS_DLRM_PYTORCH " " TPS_DLRM_TORCHREC " both" },
  { "role", G_OPTION_ARG_STRING, FIELD (role) },
  { "rank", G_OPTION_ARG_INT, FIELD (rank) },
  { "addresses", G_OPTION_ARG_STRING, FIELD (addresses) },
  { NULL },
};

const TpsCommandLine tps_dlrm_command_line = {
  "dlrm",
  "Trains a recommender (DLRM) on a click log: 26 embedding tables on servers, dense layers averaged "
  "by\nall-reduce. Reports samples per second, the phases of a step, and the quality of the "
  "predictions\nnext to those of a single process.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

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

gboolean
tps_dlrm_options_parse (TpsDlrmOptions *o, gint argc, gchar **argv, GError **error)
{
  if (!tps_command_line_parse (&tps_dlrm_command_line, o, argc, argv, &o->given, error)
      || !check_optimizer (o, error))
    return FALSE;
  tps_flags_default_number (&o->run.repeats, o->run.smoke ? 1 : 5);
  if (o->run.smoke)
    make_small (o);
  if (o->run.peer != NULL && o->table_optimizer.kind == TPS_OPTIMIZER_FTRL)
    return tps_flags_refuse ("optimizer", o->optimizer, "another one with --peer", error);
  tps_click_shape_init (&o->shape, o->scale, (gsize) o->multi_hot);
  return TRUE;
}

void
tps_dlrm_options_clear (TpsDlrmOptions *o)
{
  tps_command_line_clear (&tps_dlrm_command_line, o);
  g_clear_pointer (&o->given, g_strfreev);
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

/* -- table names -- */

const gchar *
tps_dlrm_table_name (guint table)
{
  static const gchar *const names[TPS_CLICK_TABLES] = {
    "c0",  "c1",  "c2",  "c3",  "c4",  "c5",  "c6",  "c7",  "c8",  "c9",  "c10", "c11", "c12",
    "c13", "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25",
  };

  return names[table];
}

void
tps_dlrm_table_spec_init (TpsTableSpec *spec, const TpsDlrmOptions *options, guint table)
{
  gdouble bound = 1 / sqrt ((gdouble) options->shape.rows[table]);

  tps_table_spec_init (spec, tps_dlrm_table_name (table), options->shape.rows[table],
                       (gint32) options->dim);
  spec->initializer.kind = TPS_INITIALIZER_UNIFORM;
  spec->initializer.low = -bound;
  spec->initializer.high = bound;
  spec->initializer.seed = options->seed * TPS_CLICK_TABLES + table;
  spec->optimizer = options->table_optimizer;
}
