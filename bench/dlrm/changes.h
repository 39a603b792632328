/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The trainers tell each other which rows their pushes have changed, so that rows that were
 * prefetched before are fetched again. */

#pragma once

#include "bench/dlrm/meeting.h"
#include "runtime/trainer/table_steps/table_steps.h"

G_BEGIN_DECLS

/* Exchanges the ids of the last push of each trainer, [n_tables], which must have ended, and notes
 * those of all other trainers in `steps`. Returns when all trainers have taken part. Errors: those
 * of the group; INTERNAL for a list that cannot be read. */
gboolean tps_dlrm_exchange_changes (TpsDlrmMeeting *meeting, TpsTableSteps *steps, guint n_tables,
                                    GError **error);

G_END_DECLS
