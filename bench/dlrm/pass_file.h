/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The measurements of one process in one pass, which travel to the launcher in a file: times of the
 * phases in ms, [n_steps, TPS_DLRM_N_PHASES], then the predictions; all of gdouble. */

#pragma once

#include "bench/dlrm/quality.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_DLRM_IDS,      /* ids are prepared for the lookup */
  TPS_DLRM_LOOKUP,   /* the wait for rows, and pooling */
  TPS_DLRM_FORWARD,  /* dense layers, interaction, loss */
  TPS_DLRM_BACKWARD, /* the same, and the start of the push */
  TPS_DLRM_AVERAGE,  /* the rest of the all-reduce, and the dense update */
  TPS_DLRM_PUSH,     /* the wait for the push */
  TPS_DLRM_STEP,     /* the whole step */
} TpsDlrmPhase;

#define TPS_DLRM_N_PHASES 7

/* Returns "lookup"; static. */
const gchar *tps_dlrm_phase_name (TpsDlrmPhase phase);

typedef struct
{
  GArray *times;       /* of gdouble [n_steps, TPS_DLRM_N_PHASES] */
  GArray *predictions; /* of TpsPrediction */
} TpsDlrmPass;

void tps_dlrm_pass_init (TpsDlrmPass *pass);
void tps_dlrm_pass_clear (TpsDlrmPass *pass);

gboolean tps_dlrm_pass_write (const TpsDlrmPass *pass, const gchar *path, GError **error);

/* Appends the contents of a file with `n_steps` steps to `pass`, and removes the file. Errors:
 * those of the file system; INTERNAL for a file of another size. */
gboolean tps_dlrm_pass_take (TpsDlrmPass *pass, const gchar *path, guint n_steps, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDlrmPass, tps_dlrm_pass_clear)

G_END_DECLS
