/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Remembers push ids, so that a request that is sent again is applied once and answered as the
 * first time, whether the first has been applied already or still is being.
 *
 *   begin() -> NEW      apply it, then end() with what came of it
 *           -> REPEAT   it was applied: `answer` is what the first one ended with
 *           -> RUNNING  it is being applied: `ended` will be called, once, when the first one ends
 *           -> REFUSED  with an error: STALE where it may have been applied before, DUPLICATE where
 *                       the request is another one, RESOURCE_EXHAUSTED where a client of a new name
 *                       cannot be remembered
 *           -> UNDECIDED  only where begin() was given no digest: the id is known, and a digest is
 *                         needed to say more
 *
 * A request that is costly to hash may begin() without a digest and be given one by set_digest()
 * before it ends well. Until then, others with its id that have one are RUNNING, and told of
 * DUPLICATE when it has ended.
 *
 * A push id never becomes new again. Per client there is a window of the newest sequences, in any
 * order inside it. When there are too many, of clients or of remembered pushes, or when the budget
 * is full, windows of the clients least recently heard of shrink to floors (push_floor.h):
 * everything up to the highest sequence is STALE then. A floor is forgotten when its client has not
 * been heard of for `floor_idle_ns`. When floors are used up (they take half of the budget at
 * most), clients with new names are refused. No window of a push that runs is given up.
 *
 * Ids are scoped to the incarnation of what the push changes. An incarnation is the LSN of the
 * command that created it: a remembered push with an earlier LSN was applied to something else, so
 * a push of its id is NEW.
 *
 * Failed pushes are not remembered: the next try is a new one. Thread: any.
 */

#pragma once

#include "runtime/base/budget.h"

G_BEGIN_DECLS

#define TPS_PUSH_WINDOW 1024
#define TPS_PUSH_MAX_CLIENTS 65536
#define TPS_PUSH_MAX_REMEMBERED (1 << 22)
#define TPS_PUSH_MAX_FLOORS (1 << 20)
#define TPS_PUSH_FLOOR_IDLE_NS (G_GINT64_CONSTANT (24) * 3600 * 1000000000)

typedef struct TpsPushWindow TpsPushWindow;

typedef enum
{
  TPS_PUSH_NEW = 1,
  TPS_PUSH_REPEAT = 2,
  TPS_PUSH_RUNNING = 3,
  TPS_PUSH_REFUSED = 4,
  TPS_PUSH_UNDECIDED = 5,
} TpsPushVerdict;

/* Zero = the default above. */
typedef struct
{
  guint window;         /* sequences a client */
  guint max_clients;    /* with a window */
  guint max_remembered; /* pushes in all windows */
  guint max_floors;
  gint64 floor_idle_ns;
  gint64 (*get_now_ns) (void); /* NULL = tps_clock_now_ns() */
  TpsBudget *budget;           /* of windows and floors; a reference is taken; NULL = none */
} TpsPushWindowOptions;

/* What makes two requests the same: a digest of everything that is asked for. */
typedef struct
{
  guint8 bytes[16];
} TpsPushDigest;

/* `error` is NULL when the first one succeeded, and was the same request. Called from end(),
 * outside the window's lock. */
typedef void (*TpsPushEnded) (gpointer user_data, gint64 answer, const GError *error);

/* A push as it comes. */
typedef struct
{
  const gchar *client;
  gint64 sequence;
  const TpsPushDigest *digest; /* NULL: not known yet */
  /* Of what it changes; of several the earliest, since it may have been applied to that. 0 = not
   * said. */
  gint64 incarnation;
  TpsPushEnded ended;
  gpointer user_data;
} TpsPushRequest;

/* `options` may be NULL. */
TpsPushWindow *tps_push_window_new (const TpsPushWindowOptions *options);
/* Nothing may be running. */
void tps_push_window_free (TpsPushWindow *window);

/* What it remembers: clients with a window, their pushes, and floors of clients whose windows had
 * to go. */
typedef struct
{
  gsize n_clients;
  gsize n_pushes;
  gsize n_floors;
} TpsPushWindowSize;

void tps_push_window_get_size (TpsPushWindow *window, TpsPushWindowSize *size);

TpsPushVerdict tps_push_window_begin (TpsPushWindow *window, const TpsPushRequest *request,
                                      gint64 *answer, GError **error);

/* For a push that was NEW and has not ended. */
void tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                                 const TpsPushDigest *digest);

/* For a push that was NEW: it was applied by the command `lsn` (0 = by none), and `answer` is
 * remembered. It has a digest. */
void tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence,
                          gint64 answer, gint64 lsn);

/* For a push that was NEW, and was not applied. */
void tps_push_window_fail (TpsPushWindow *window, const gchar *client, gint64 sequence,
                           const GError *error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushWindow, tps_push_window_free)

G_END_DECLS
