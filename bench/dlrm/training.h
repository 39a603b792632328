/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The steps of one process. Step k of T trainers has the samples [k * T * batch, (k + 1) * T *
 * batch). Trainer r trains on the r-th of T equal parts. The single process trains on all parts,
 * and pushes their gradients one after another, in the order of the trainers.
 *
 * With the staleness bound 0, all trainers have the rows of a step before any trainer pushes. All
 * pushes have ended before any trainer takes the rows of the next step. The speed of the trainers
 * therefore affects only the order in which servers apply the pushes of one step. With a larger
 * bound, trainers meet only in the all-reduce of the dense layers. */

#pragma once

#include "bench/dlrm/changes.h"
#include "bench/dlrm/click_log.h"
#include "bench/dlrm/dense_part.h"
#include "bench/dlrm/embeddings.h"
#include "bench/dlrm/meeting.h"
#include "bench/dlrm/options.h"
#include "bench/dlrm/pass_file.h"

G_BEGIN_DECLS

/* The training of one process. */
typedef struct
{
  const TpsDlrmOptions *options;
  gsize first_part, n_parts; /* the parts of each step that belong to this process */
  TpsClickLog log;
  TpsDlrmEmbeddings embeddings;
  TpsDlrmDense dense;
  TpsDlrmMeeting meeting;

  /* The state of the running step. */
  const TpsClickBatch *batch;
  GError *push_error; /* of the push in the backward pass */
  gint64 passed_ns;   /* the end of the backward pass */
} TpsDlrmTraining;

/* Initialises the training of the trainer with the number group->rank, or of the single process
 * (`is_single`). `options`, `client` and `group` are borrowed. Errors: those of the file of
 * samples, of the embeddings and of the dense layers. */
gboolean tps_dlrm_training_init (TpsDlrmTraining *training, const TpsDlrmOptions *options,
                                 TpsTableClient *client, TpsProcessGroup *group, gboolean is_single,
                                 GError **error);

/* Frees the contents. If a pass has failed, the group must already have been freed. */
void tps_dlrm_training_clear (TpsDlrmTraining *training);

/* Runs `n_steps` steps from number `first` on, and appends their measurements to `pass`. The
 * samples are read before the first step. `*seconds` receives the duration of the steps. Blocks.
 * Errors: those of the samples, of the tables and of the group, with the number of the step. */
gboolean tps_dlrm_training_run (TpsDlrmTraining *training, guint64 first, guint n_steps,
                                TpsDlrmPass *pass, gdouble *seconds, GError **error);

G_END_DECLS
