/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The experiments of the originals by name, for --experiment. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* An experiment: values of the flags of the same names. Strings are static. */
typedef struct
{
  const gchar *name;
  const gchar *ddp_hook;
  gint ntrainer;
  gint ncudatrainer;
  const gchar *server; /* NULL = none */
  gint nserver;
  gint ncudaserver;
  const gchar *backend;
  const gchar *data;
  const gchar *model;
  gint rpc_timeout;
  gint epochs;
  gint batch_size;
} TpsExperiment;

/* Finds an experiment. Static. Errors: NOT_FOUND, with the known names. */
const TpsExperiment *tps_experiment_find (const gchar *name, GError **error);

/* Returns the names of the experiments that need a GPU, or of the other experiments, separated by
 * spaces. The caller owns the result. */
gchar *tps_experiment_list (gboolean with_gpu);

G_END_DECLS
