/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/meeting.h"

void
tps_dlrm_meeting_init (TpsDlrmMeeting *meeting, TpsProcessGroup *group)
{
  *meeting = (TpsDlrmMeeting) { .group = group };
  tps_mutex_init (&meeting->lock);
  tps_cond_init (&meeting->ended);
}

void
tps_dlrm_meeting_clear (TpsDlrmMeeting *meeting)
{
  tps_cond_clear (&meeting->ended);
  tps_mutex_clear (&meeting->lock);
  g_clear_error (&meeting->error);
}

static void
on_done (gpointer user_data, const GError *error)
{
  TpsDlrmMeeting *meeting = user_data;

  tps_mutex_lock (&meeting->lock);
  meeting->is_pending = FALSE;
  meeting->error = error != NULL ? g_error_copy (error) : NULL;
  tps_cond_signal (&meeting->ended);
  tps_mutex_unlock (&meeting->lock);
}

void
tps_dlrm_meeting_arrive (TpsDlrmMeeting *meeting)
{
  if (meeting->group->size == 1)
    return;
  meeting->number = 0;
  meeting->is_pending = TRUE;
  meeting->group->ops->all_reduce_f32 (meeting->group, &meeting->number, 1, on_done, meeting);
}

gboolean
tps_dlrm_meeting_wait (TpsDlrmMeeting *meeting, GError **error)
{
  GError *failure;

  tps_mutex_lock (&meeting->lock);
  while (meeting->is_pending)
    tps_cond_wait (&meeting->ended, &meeting->lock);
  failure = g_steal_pointer (&meeting->error);
  tps_mutex_unlock (&meeting->lock);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, failure);
  return FALSE;
}

gboolean
tps_dlrm_meeting_gather (TpsDlrmMeeting *meeting, gconstpointer data, gsize n_bytes, gsize *counts,
                         TpsBuffer **gathered, GError **error)
{
  meeting->is_pending = TRUE;
  meeting->group->ops->all_gather_bytes (meeting->group, data, n_bytes, counts, gathered, on_done,
                                         meeting);
  return tps_dlrm_meeting_wait (meeting, error);
}
