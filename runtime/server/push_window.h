/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Remembers push ids, so that a push that is sent several times is applied once. Each repeat gets
 * the answer of the first request, even if the first request is still running when the repeat
 * arrives.
 *
 *   begin() -> NEW      apply the push, then end() with its answer, or fail()
 *           -> REPEAT   it was applied: `answer` is the answer of the first request
 *           -> RUNNING  it is being applied: `ended` is called, once, when the first request ends
 *           -> REFUSED  with an error: STALE if it may already have been applied, DUPLICATE if the
 *                       first request was a different one, RESOURCE_EXHAUSTED if there is no room
 *                       to remember the client's push
 *           -> UNDECIDED  only without a digest: the id is known, and begin() must be called again
 *                         with a digest
 *
 * If a request is costly to hash, the caller may call begin() without a digest, and must then call
 * set_digest() before end(). Until then, requests with the same id and a digest are RUNNING. If
 * their digests differ, they get DUPLICATE when the first request has ended.
 *
 * A push id does not become new again while its client has a window or a floor. The window of a
 * client holds its newest sequences, which may arrive in any order. If there are too many clients
 * or remembered pushes, or if the budget is full, the windows of the least recently used clients
 * shrink to floors (push_floor.h). All sequences up to the floor are then STALE. A floor is
 * forgotten when its client has been silent for `floor_idle_ns`. If no floor is left (floors take
 * at most half of the budget), clients with new names are refused. The window of a client with a
 * running push is never dropped.
 *
 * Ids are scoped to the incarnation of the object that the push changes. An incarnation is the LSN
 * of the command that created the object. A remembered push with an earlier LSN was applied to a
 * different object, so a push with the same id is NEW.
 *
 * Failed pushes are not remembered: the next attempt is a new push. Thread: any.
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
  guint window;         /* sequences for each client */
  guint max_clients;    /* clients with a window */
  guint max_remembered; /* pushes in all windows */
  guint max_floors;
  gint64 floor_idle_ns;
  gint64 (*get_now_ns) (void); /* NULL = tps_clock_now_ns() */
  TpsBudget *budget;           /* of windows and floors; a reference is taken; NULL = no limit */
} TpsPushWindowOptions;

/* The identity of a request: a digest of its whole content. */
typedef struct
{
  guint8 bytes[16];
} TpsPushDigest;

/* Called when the first request has ended, from end() or fail(), without the window's lock. `error`
 * (borrowed) is NULL if the first request succeeded and has the same digest. */
typedef void (*TpsPushEnded) (gpointer user_data, gint64 answer, const GError *error);

/* A push that has arrived. */
typedef struct
{
  const gchar *client;
  gint64 sequence;
  const TpsPushDigest *digest; /* NULL: not known yet */
  /* The incarnation of the object that the push changes; 0 = not given. If there are several
   * objects, the earliest incarnation, since the push may have been applied to that object. */
  gint64 incarnation;
  TpsPushEnded ended;
  gpointer user_data;
} TpsPushRequest;

/* Makes an empty window. Copies `options`, which may be NULL. */
TpsPushWindow *tps_push_window_new (const TpsPushWindowOptions *options);
/* Frees the window. No push may be running. */
void tps_push_window_free (TpsPushWindow *window);

/* The numbers of clients with a window, of their remembered pushes, and of floors. */
typedef struct
{
  gsize n_clients;
  gsize n_pushes;
  gsize n_floors;
} TpsPushWindowSize;

/* Fills in `size`, at one moment. Thread: any. */
void tps_push_window_get_size (TpsPushWindow *window, TpsPushWindowSize *size);

/* Decides about a push: see the comment at the top. Copies `request`. Sets `answer` for REPEAT, and
 * `error` for REFUSED. Never blocks. */
TpsPushVerdict tps_push_window_begin (TpsPushWindow *window, const TpsPushRequest *request,
                                      gint64 *answer, GError **error);

/* Sets the digest of a push that was NEW and has not ended. */
void tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                                 const TpsPushDigest *digest);

/* Ends a push that was NEW: the command `lsn` (0 = none) applied it, and `answer` is remembered.
 * The push must have a digest. */
void tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence,
                          gint64 answer, gint64 lsn);

/* Ends a push that was NEW and was not applied, for the reason `error` (borrowed). */
void tps_push_window_fail (TpsPushWindow *window, const gchar *client, gint64 sequence,
                           const GError *error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushWindow, tps_push_window_free)

G_END_DECLS
