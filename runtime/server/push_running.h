/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The pushes of one client that are being applied, and the repeats that wait for them. A client has
 * few at a time, and most clients never have two. Internal to the push window. Thread: one at a
 * time. */

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

/* Copies `push`, whose sequence must not be running. */
void tps_running_pushes_add (TpsRunningPushes *pushes, const TpsRunningPush *push);

/* Borrowed until the next push is added or taken; NULL = it is not running. */
TpsRunningPush *tps_running_pushes_find (TpsRunningPushes *pushes, gint64 sequence);

/* Removes a running push. */
TpsRunningPush tps_running_pushes_take (TpsRunningPushes *pushes, gint64 sequence);

/* `request` has a digest. */
void tps_running_push_add_waiter (TpsRunningPush *push, const TpsPushRequest *request);

/* Calls the waiters of a push that has been taken, and frees their list. */
void tps_running_push_tell (const TpsRunningPush *push, const gchar *client, gint64 answer,
                            const GError *error);

/* The error of a request that has the id of another one. */
GError *tps_push_new_duplicate_error (const gchar *client, gint64 sequence);

G_END_DECLS
