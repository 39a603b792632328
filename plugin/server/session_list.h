/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All sessions of a server by their ids, for reports. Inside plugin/server only. Thread: any. */

#pragma once

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct
{
  TpsMutex lock;   /* guards the fields below; no other lock is taken under it */
  GArray *entries; /* of private entries, in the order of their ids */
  guint64 last_id;
} TpsSessionList;

/* Makes an empty list in the caller's storage. */
void tps_session_list_init (TpsSessionList *list);
/* Releases the memory. The list must be empty. */
void tps_session_list_clear (TpsSessionList *list);

/* Adds `session`, which is borrowed until its removal. Returns its id, which is greater than the
 * ids of all earlier sessions. */
guint64 tps_session_list_add (TpsSessionList *list, gpointer session);
/* Removes the session with this id. */
void tps_session_list_remove (TpsSessionList *list, guint64 id);

/* Sets `sessions`, [n_max], to the sessions with the next ids above `after`, and returns their
 * number. If the number is below `n_max`, there are no more sessions. `ref` is called for each
 * session, with the lock held. Connections that begin or end wait meanwhile, so `n_max` should not
 * exceed a few hundred. */
guint tps_session_list_ref_next (TpsSessionList *list, guint64 after, gpointer *sessions,
                                 guint n_max, void (*ref) (gpointer session));

G_END_DECLS
