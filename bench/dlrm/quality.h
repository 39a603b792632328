/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The measurements of a pass, and the quality of its predictions, made before the model was trained
 * on their samples. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A prediction and the outcome, in the format of the files of processes. */
typedef struct
{
  gdouble logit;
  gdouble label; /* 0 or 1 */
} TpsPrediction;

/* Returns the mean binary cross-entropy of `predictions` (TpsPrediction); NAN without any. */
gdouble tps_quality_get_log_loss (const GArray *predictions);

/* Returns the area under the ROC curve. This is the probability that a click has a larger logit
 * than a sample without a click; equal logits count as one half. Returns NAN unless there are both.
 * `predictions` is an array of TpsPrediction, which the function sorts. */
gdouble tps_quality_get_auc (GArray *predictions);

/* The phases of a step. */
typedef enum
{
  TPS_DLRM_IDS,      /* the preparation of ids for the lookup */
  TPS_DLRM_LOOKUP,   /* the wait for rows, and pooling */
  TPS_DLRM_FORWARD,  /* dense layers, interaction, loss */
  TPS_DLRM_BACKWARD, /* the dense layers and the interaction again, and the start of the push */
  TPS_DLRM_AVERAGE,  /* the rest of the all-reduce, and the dense update */
  TPS_DLRM_PUSH,     /* the wait for the push */
  TPS_DLRM_STEP,     /* the whole step */
} TpsDlrmPhase;

#define TPS_DLRM_N_PHASES 7

/* The measurements of one process in one pass. A file brings them to the launcher: the times in
 * milliseconds, [n_steps, TPS_DLRM_N_PHASES], and then the predictions; all numbers are gdouble. */
typedef struct
{
  GArray *times;       /* of gdouble [n_steps, TPS_DLRM_N_PHASES], milliseconds */
  GArray *predictions; /* of TpsPrediction */
} TpsDlrmPass;

/* tps_dlrm_pass_init() creates empty arrays, and tps_dlrm_pass_clear() frees them. */
void tps_dlrm_pass_init (TpsDlrmPass *pass);
void tps_dlrm_pass_clear (TpsDlrmPass *pass);

/* Writes the file. Errors: those of g_file_set_contents(). */
gboolean tps_dlrm_pass_write (const TpsDlrmPass *pass, const gchar *path, GError **error);

/* Appends the contents of a file with `n_steps` steps to `pass`, and removes the file. Errors:
 * those of the file system; INTERNAL (a file of another size). */
gboolean tps_dlrm_pass_take (TpsDlrmPass *pass, const gchar *path, guint n_steps, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDlrmPass, tps_dlrm_pass_clear)

G_END_DECLS
