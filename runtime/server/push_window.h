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
 * A push id does not become new again while its client is known, by a hash of its name. The window
 * of a client holds its newest sequences, which may arrive in any order. If there are too many
 * windows or remembered pushes, or if the budget is full, the windows of the least recently used
 * clients shrink to floors: of the pushes, only the highest sequence and LSN remain. All sequences
 * up to the floor are then STALE. A floor is forgotten when its client has been silent for
 * `floor_idle_ns`. The window of a client with a running push is never dropped.
 *
 * Each tenant has a share of the clients, with windows and floors: a sixteenth of `max_clients` +
 * `max_floors`. Callers without a tenant have a share of the full number. If floors of all these
 * clients would take more than half of the budget, the shares are smaller. A client belongs to the
 * share of the tenant that used its name first. If a share is full, new names of its tenant are
 * refused until a client has been silent for `floor_idle_ns`, or until tps_push_window_forget().
 * Clients with a floor always get a window again. Windows are taken from the tenant whose windows
 * occupy the most memory.
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
#define TPS_PUSH_TENANTS 16 /* the number of tenants' shares in the number of clients */
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
  guint max_clients;    /* clients with a window, of all tenants */
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
  const gchar *tenant; /* of the caller; NULL = none */
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

void tps_push_window_get_size (TpsPushWindow *window, TpsPushWindowSize *size);

/* Decides about a push: see the comment at the top. Copies `request`. Sets `answer` for REPEAT, and
 * `error` for REFUSED. Never blocks. */
TpsPushVerdict tps_push_window_begin (TpsPushWindow *window, const TpsPushRequest *request,
                                      gint64 *answer, GError **error);

/* Sets the digest of a push that was NEW and has not ended. */
void tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                                 const TpsPushDigest *digest);

/* Forgets the clients in the share of `tenant` (NULL = of callers without a tenant) that have been
 * silent for `idle_ns`, with their windows and floors. Their pushes become new again. Returns their
 * number. Thread: any. */
guint tps_push_window_forget (TpsPushWindow *window, const gchar *tenant, gint64 idle_ns);

/* Ends a push that was NEW: the command `lsn` (0 = none) applied it, and `answer` is remembered.
 * The push must have a digest. */
void tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence,
                          gint64 answer, gint64 lsn);

/* Ends a push that was NEW and was not applied, for the reason `error` (borrowed). */
void tps_push_window_fail (TpsPushWindow *window, const gchar *client, gint64 sequence,
                           const GError *error);

/* Remembers a push that command `lsn` applied before a restart, unless it is known. `time_ms` is
 * the time of the command, since 1970; 0 = unknown. The clock of the window advances by the time
 * between two commands, so the replay forgets clients as the server did before the restart. The
 * time between the last command and the restart does not count. The client may exceed the share of
 * its tenant, because the limits may be smaller than before. Errors: RESOURCE_EXHAUSTED (the
 * budget). */
gboolean tps_push_window_replay (TpsPushWindow *window, const TpsPushRequest *request,
                                 gint64 time_ms, gint64 answer, gint64 lsn, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushWindow, tps_push_window_free)

/* ---- export --------------------------------------------------------------------------------- */

/* Windows and floors as bytes, for snapshots. Otherwise, an id would become new again when the log
 * before the snapshot is deleted.
 *
 *   tps_push_export_begin (window);
 *   while (tps_push_export_some (window, records))
 *     ... write and empty `records` ...
 *
 * Pushes continue meanwhile. Every client that is remembered throughout the export has a record,
 * with its state at one moment of the export. Pushes that end during the export may or may not be
 * included. runtime/server/snapshot/FORMAT.md describes the records. Thread: any, but one export of
 * a window at a time. */

/* The approximate number of bytes that one call of some() appends while it holds the lock. The
 * record of one client, with 40 bytes for each push, may exceed it. */
#define TPS_PUSH_EXPORT_BYTES (64 << 10)

/* Begins an export, even if an earlier one was abandoned. */
void tps_push_export_begin (TpsPushWindow *window);

/* Appends whole records to `records`. FALSE: there are no more, and nothing was appended. */
gboolean tps_push_export_some (TpsPushWindow *window, GByteArray *records);

/* Adds the whole records at the beginning of `records` to the window, and sets `n_used` to their
 * length. No request may use the window yet. No client is forgotten: clients may exceed the share
 * of their tenant, and those whose pushes do not fit the budget get floors. FALSE without an error:
 * the bytes after `n_used` are not a record. Errors: RESOURCE_EXHAUSTED (the budget has no
 * room). */
gboolean tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes,
                               gsize *n_used, GError **error);

/* Must be called when all records have been read. Puts clients in the order of their last requests,
 * because an export has a different order. The least recently used windows beyond the limits become
 * floors. */
void tps_push_export_end_read (TpsPushWindow *window);

G_END_DECLS
