/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The trainers exchange the ids of rows that their pushes have changed. Rows that a trainer has
 * prefetched before such a change must be fetched again. */

#pragma once

#include "bench/dlrm/meeting.h"
#include "runtime/trainer/table_steps/table_steps.h"

G_BEGIN_DECLS

/* Exchanges the ids of the last push of each trainer, which must have ended, and notes the ids of
 * all other trainers in `steps`. Blocks until all trainers have taken part. Errors: those of the
 * group; INTERNAL (a list that cannot be read). */
gboolean tps_dlrm_exchange_changes (TpsDlrmMeeting *meeting, TpsTableSteps *steps, guint n_tables,
                                    GError **error);

G_END_DECLS
