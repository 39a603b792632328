/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Points that all trainers must reach before one of them continues. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

/* One meeting at a time. With one trainer, no meeting takes any time. */
typedef struct
{
  TpsProcessGroup *group; /* borrowed */
  gfloat number;
  TpsMutex lock;
  TpsCond ended;
  gboolean is_pending; /* under the lock, and the next field */
  GError *error;
} TpsDlrmMeeting;

void tps_dlrm_meeting_init (TpsDlrmMeeting *meeting, TpsProcessGroup *group);
void tps_dlrm_meeting_clear (TpsDlrmMeeting *meeting);

/* Says that this trainer has reached the point. Does not block. */
void tps_dlrm_meeting_arrive (TpsDlrmMeeting *meeting);

/* Waits until all trainers have reached the point. TRUE at once if this trainer has not arrived at
 * a meeting. Errors: those of the group. */
gboolean tps_dlrm_meeting_wait (TpsDlrmMeeting *meeting, GError **error);

/* A meeting in which each trainer shows `n_bytes` bytes. `counts` [size] and `gathered` receive
 * those of all trainers, in their order; the caller owns `gathered`. Blocks. Errors: those of the
 * group. */
gboolean tps_dlrm_meeting_gather (TpsDlrmMeeting *meeting, gconstpointer data, gsize n_bytes,
                                  gsize *counts, TpsBuffer **gathered, GError **error);

G_END_DECLS
