/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Remembers push ids, so that a request that is sent again is applied once and answered as the first time, whether the
 * first has been applied already or still is being.
 *
 *   begin() -> NEW      apply it, then end() with what came of it
 *           -> REPEAT   it was applied: `answer` is what the first one ended with
 *           -> RUNNING  it is being applied: `ended` will be called, once, when the first one ends
 *           -> REFUSED  with an error: STALE below the window, DUPLICATE where the request is another one
 *           -> UNDECIDED  only where begin() was given no digest: the id is known, and a digest is needed to say more
 *
 * A request that is costly to hash may begin() without a digest and be given one by set_digest() before it ends well. Until
 * then, others with its id that have one are RUNNING, and told of DUPLICATE when it has ended.
 *
 * Per client a window of the newest sequences, in any order inside it; the clients least recently heard of go first when
 * there are too many, of clients or of remembered pushes in all (never one that runs). Failed pushes are not remembered:
 * the next try is a new one. Thread: any.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_PUSH_WINDOW 1024
#define TPS_PUSH_MAX_CLIENTS 65536
#define TPS_PUSH_MAX_REMEMBERED (1 << 22)

typedef struct TpsPushWindow TpsPushWindow;

typedef enum
{
  TPS_PUSH_NEW = 1,
  TPS_PUSH_REPEAT = 2,
  TPS_PUSH_RUNNING = 3,
  TPS_PUSH_REFUSED = 4,
  TPS_PUSH_UNDECIDED = 5,
} TpsPushVerdict;

typedef struct
{
  guint window;         /* sequences a client; 0 = TPS_PUSH_WINDOW */
  guint max_clients;    /* 0 = TPS_PUSH_MAX_CLIENTS */
  guint max_remembered; /* pushes in all; 0 = TPS_PUSH_MAX_REMEMBERED */
} TpsPushWindowOptions;

/* What makes two requests the same: a digest of everything that is asked for. */
typedef struct
{
  guint8 bytes[16];
} TpsPushDigest;

/* `error` is NULL when the first one succeeded, and was the same request. Called from end(), outside the window's lock. */
typedef void (*TpsPushEnded) (gpointer user_data, gint64 answer, const GError *error);

/* `options` may be NULL. */
TpsPushWindow *tps_push_window_new (const TpsPushWindowOptions *options);
/* Nothing may be running. */
void tps_push_window_free (TpsPushWindow *window);

/* `digest` may be NULL: not known yet. */
TpsPushVerdict tps_push_window_begin (TpsPushWindow *window, const gchar *client, gint64 sequence,
                                      const TpsPushDigest *digest, TpsPushEnded ended,
                                      gpointer user_data, gint64 *answer, GError **error);

/* For a push that was NEW and has not ended. */
void tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                                 const TpsPushDigest *digest);

/* For a push that was NEW, and has a digest where `error` is NULL: `error` NULL = it was applied, and `answer` is remembered. */
void tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence,
                          gint64 answer, const GError *error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushWindow, tps_push_window_free)

G_END_DECLS
