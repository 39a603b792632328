/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The pushes of one client that are being applied, and the repeats that wait for them. A client has
 * few running pushes at a time, and most clients never have two. Internal to the push window.
 * Thread: one at a time. */

#pragma once

#include "runtime/server/push_window.h"

G_BEGIN_DECLS

/* A push that is being applied. */
typedef struct
{
  gint64 sequence;
  gint64 incarnation;
  gboolean has_digest;
  TpsPushDigest digest;
  GArray *waiters; /* of repeats; NULL = there are none */
} TpsRunningPush;

/* All zero = there are none. */
typedef struct
{
  guint n;
  TpsRunningPush one; /* the push, if n = 1 and `many` is NULL */
  GArray *many;       /* of TpsRunningPush, from the second push on until the last one ends */
} TpsRunningPushes;

/* Adds a copy of `push`, whose sequence must not be running. */
void tps_running_pushes_add (TpsRunningPushes *pushes, const TpsRunningPush *push);

/* Returns the running push of `sequence`, borrowed until the next push is added or taken; NULL =
 * there is none. */
TpsRunningPush *tps_running_pushes_find (TpsRunningPushes *pushes, gint64 sequence);

/* Removes a push, which must be running, and returns it with its waiters, which the caller must
 * pass to tps_running_push_tell(). */
TpsRunningPush tps_running_pushes_take (TpsRunningPushes *pushes, gint64 sequence);

/* Makes `request`, which must have a digest, wait for the end of `push`. */
void tps_running_push_add_waiter (TpsRunningPush *push, const TpsPushRequest *request);

/* Calls ended() of the waiters of a push that has been taken, and frees their list. `error` NULL =
 * the push was applied: waiters with a different digest get DUPLICATE. */
void tps_running_push_tell (const TpsRunningPush *push, const gchar *client, gint64 answer,
                            const GError *error);

/* Returns the error, DUPLICATE, of a request whose push id was used for a different request. The
 * caller frees it. */
GError *tps_push_new_duplicate_error (const gchar *client, gint64 sequence);

G_END_DECLS
