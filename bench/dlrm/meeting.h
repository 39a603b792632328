/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Points that all trainers must reach before any trainer continues. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* A series of meetings, one at a time. A meeting is a collective of the group. With one trainer,
 * tps_dlrm_meeting_arrive() and tps_dlrm_meeting_wait() do nothing. */
typedef struct
{
  TpsProcessGroup *group; /* borrowed */ /* the operand of the all-reduce */
  gfloat number;
  TpsMutex lock;
  TpsCond ended;
  gboolean is_pending; /* guarded by the lock during a meeting, like the next field */
  GError *error;
} TpsDlrmMeeting;

/* tps_dlrm_meeting_init() borrows `group`. No meeting may be in progress at
 * tps_dlrm_meeting_clear(). */
void tps_dlrm_meeting_init (TpsDlrmMeeting *meeting, TpsProcessGroup *group);
void tps_dlrm_meeting_clear (TpsDlrmMeeting *meeting);

/* Announces that this trainer has reached the point. The previous meeting must have ended. Does not
 * block. */
void tps_dlrm_meeting_arrive (TpsDlrmMeeting *meeting);

/* Waits until all trainers have reached the point. Returns TRUE at once if this trainer has not
 * announced itself. Errors: those of the group. */
gboolean tps_dlrm_meeting_wait (TpsDlrmMeeting *meeting, GError **error);

/* Runs a meeting in which each trainer contributes `n_bytes` bytes. `counts` [size of the group]
 * and `gathered` receive the numbers of bytes and the bytes of all trainers, in the order of ranks.
 * The caller owns `gathered`. Blocks. Errors: those of the group. */
gboolean tps_dlrm_meeting_gather (TpsDlrmMeeting *meeting, gconstpointer data, gsize n_bytes,
                                  gsize *counts, TpsBuffer **gathered, GError **error);

G_END_DECLS
