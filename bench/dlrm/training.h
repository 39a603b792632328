/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The steps of one process. Step k of T trainers uses the samples [k * T * batch, (k + 1) * T *
 * batch), of which trainer r has the r-th part. The single process has all parts, and pushes the
 * gradients of the parts one after the other, in the order of the trainers.
 *
 * With the bound of staleness 0, all trainers have the rows of a step before the first of them
 * pushes, and all pushes have ended before one of them takes the rows of the next step. So the
 * results do not depend on the speed of the trainers, except for the order in which servers apply
 * the pushes of one step. With a larger bound, trainers meet in the all-reduce of the dense layers
 * only. */

#pragma once

#include "bench/dlrm/changes.h"
#include "bench/dlrm/click_log.h"
#include "bench/dlrm/dense_part.h"
#include "bench/dlrm/embeddings.h"
#include "bench/dlrm/meeting.h"
#include "bench/dlrm/options.h"
#include "bench/dlrm/pass_file.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsDlrmOptions *options;
  gsize first_part, n_parts; /* of this process, of each step */
  TpsClickLog log;
  TpsDlrmEmbeddings embeddings;
  TpsDlrmDense dense;
  TpsDlrmMeeting meeting;

  /* The running step. */
  const TpsClickBatch *batch;
  GError *push_error;
  gint64 passed_ns; /* the end of the backward pass */
} TpsDlrmTraining;

/* Initialises the training of the trainer with number group->rank, or of the single process
 * (`is_single`). `client` and `group` are borrowed. Errors: those of the file of samples and of the
 * parts. */
gboolean tps_dlrm_training_init (TpsDlrmTraining *training, const TpsDlrmOptions *options,
                                 TpsTableClient *client, TpsProcessGroup *group, gboolean is_single,
                                 GError **error);

/* Frees the training. The group must have been freed first if a pass has failed. */
void tps_dlrm_training_clear (TpsDlrmTraining *training);

/* Runs `n_steps` steps from number `first` on, and appends their measurements to `pass`. Samples
 * are read before the first step. `seconds` receives the duration of the steps. */
gboolean tps_dlrm_training_run (TpsDlrmTraining *training, guint64 first, guint n_steps,
                                TpsDlrmPass *pass, gdouble *seconds, GError **error);

G_END_DECLS
