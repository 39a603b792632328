/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gives commands their LSNs, and makes commands that touch the same object take effect in the order
 * of their LSNs.
 *
 *   a request is checked completely, and everything that may fail is prepared
 *     -> tps_sequencer_run()   the command enters the queue of each object that it touches. A queue
 *                              that is full makes it wait, without an LSN
 *     -> admission             the command has its LSN and a turn in each queue
 *     -> run()                 when all of its turns have come: at once, or later on the thread
 *                              that ended the turn before, or on a worker
 *     -> observer              in the order of the LSNs, when the record is complete; it may keep
 *                              the record
 *     -> ended()               when the observer has released the record: the request is answered
 *
 * A command that waits occupies no thread. Commands that touch different objects run at the same
 * time. Turns are queued under one lock. Two commands that share several objects therefore have the
 * same order in all of their queues, and cannot wait for each other. The lock is held for a few
 * instructions, twice for each command.
 *
 * Fairness: a queue is full when it has two large commands, or 16 small ones. The tenants of
 * waiting commands then enter it in turn, one command at a time, so a command waits for as many
 * commands as there are other tenants, and not for all commands that they have sent. A command
 * waits once for each queue that is full, one after the other, and holds no place meanwhile, so a
 * flood of one object does not reach others through commands that touch both. At the end it enters
 * all of its queues, even if some have filled up again; its other queues limit the number of such
 * commands.
 *
 * Thread: any function may be called from any thread. The lock of the sequencer is the innermost
 * one: callers may hold locks of their own in tps_sequencer_admit(), and must hold none in
 * tps_sequencer_run() and tps_sequencer_finish().
 */

#pragma once

#include "runtime/base/worker_pool.h"
#include "runtime/server/command.h"

G_BEGIN_DECLS

typedef struct TpsSequencer TpsSequencer;
typedef struct TpsTurn TpsTurn;
typedef struct TpsOrdered TpsOrdered;

/* The commands of one object whose run() has not returned, in LSN order. The first one runs when
 * all of its turns have come. The second one may run at the same time if both have `may_follow`.
 * All zero: there are none. */
typedef struct
{
  TpsTurn *first, *last; /* guarded by the sequencer's lock, as are all fields */
  gboolean is_closed;    /* the object has been dropped: no further command may touch it */
  guint64 n_taken;       /* turns so far */
  guint load;            /* of the commands that have entered and have not left */
  /* A ring of the tenants whose commands wait to enter, each with its first command. */
  TpsTurn *waiting, *last_waiting;
} TpsTurnQueue;

/* The place of a command in one queue. */
struct TpsTurn
{
  TpsTurnQueue *queue; /* set by the caller */
  TpsTurn *next;       /* of the queue; while it waits to enter, of its tenant */
  TpsOrdered *ordered;
  guint64 number; /* in its queue, from 1 */

  /* private: while the command waits to enter */
  TpsTurn *next_tenant, *last_of_tenant; /* only of the first turn of its tenant */
};

/* A command in progress. The caller provides the storage, which must stay until ended(). */
struct TpsOrdered
{
  TpsCommand *command; /* its lsn is set at admission */
  TpsTurn *turns;      /* [n_turns], no queue twice */
  guint n_turns;
  gconstpointer tenant; /* compared, not used; NULL = that of all commands without a tenant */
  /* run() computes little and does not block, so that an I/O thread may call it. */
  gboolean is_small;
  /* The command touches one object. If the command before it in the queue has `may_follow` too,
   * both may run at the same time, and run() must keep their accesses in order. At most two
   * commands of a queue run at a time. */
  gboolean may_follow;
  /* Makes the command take effect, and may complete the record. Never called with a lock held. */
  void (*run) (TpsOrdered *ordered);
  /* Called instead of run() and ended() if a queue was closed before the command was admitted:
   * `closed` is the first such turn. The command has no LSN and no effect. May free the storage. */
  void (*refused) (TpsOrdered *ordered, const TpsTurn *closed);
  /* The last call, after run() and after the observer has released the command: ended() may free
   * the storage. `error` (borrowed; NULL: none) is that of the observer: the command has taken
   * effect, but its record is lost. The function may be NULL. */
  void (*ended) (TpsOrdered *ordered, const GError *error);

  gboolean has_waited; /* for run(): the command did not run at once */

  /* private */
  const TpsTurn *closed;   /* the command is refused */
  TpsSequencer *sequencer; /* with an observer */
  guint n_waits;           /* turns that have not come */
  gboolean is_complete;
  gboolean has_begun;    /* run() has been called, if others may follow */
  gboolean is_following; /* the command before it had not ended */
  TpsOrdered *next_ready;
  TpsOrdered *next_admitted;
};

/* Receives every admitted command, complete, in the order of the LSNs: one call at a time, without
 * a lock. The observer may read the record until it calls tps_ordered_release(), which must happen
 * once for each command. The observer must not block. */
typedef void (*TpsCommandObserver) (gpointer user_data, TpsOrdered *ordered);

typedef struct
{
  TpsCommandObserver observe; /* optional */
  /* Optional: returns TRUE if a command whose record has about `n_bytes` may be admitted now. Must
   * not block. Thread: any. */
  gboolean (*may_admit) (gpointer user_data, gsize n_bytes, GError **error);
  gpointer user_data;
  TpsWorkerPool *workers; /* borrowed; NULL: the threads that end turns run the next commands */
} TpsSequencerOptions;

/* Makes a sequencer whose first command gets LSN 1. Copies `options`. */
TpsSequencer *tps_sequencer_new (const TpsSequencerOptions *options);
/* Frees the sequencer. No command and no call of tps_ordered_release() may be in progress. */
void tps_sequencer_free (TpsSequencer *sequencer);

/* Returns TRUE if an observer reads the records. Parts that only a record needs must then be
 * computed. */
gboolean tps_sequencer_has_observer (TpsSequencer *sequencer);

/* Returns TRUE if a command with a record of about `n_bytes` may be admitted. Must be called before
 * a request that changes state has any effect. FALSE: options.may_admit() has refused, with its
 * error, and the caller must refuse the request. The sequencer does not enforce this. */
gboolean tps_sequencer_may_admit (TpsSequencer *sequencer, gsize n_bytes, GError **error);

/* Sets the LSN of the next command to `lsn` + 1; all commands up to `lsn` count as ended. No
 * command may be in progress. */
void tps_sequencer_set_lsn (TpsSequencer *sequencer, gint64 lsn);

/* Admits a command, as soon as its queues have room. Then run() and ended(), or only refused(), are
 * called, each once, by this thread before the function returns, or by a different thread. */
void tps_sequencer_run (TpsSequencer *sequencer, TpsOrdered *ordered);

/* Admits a command that takes effect under a lock of its owner and takes no turns. Returns the LSN
 * of the command. Closes the queue `closes` (may be NULL); commands that were admitted to this
 * queue before still run, and later ones are refused. The effect must be visible to other threads
 * before the owner's lock is released. Then the caller must call tps_sequencer_finish(), without
 * that lock, after which ended() is called. run() is not called. */
gint64 tps_sequencer_admit (TpsSequencer *sequencer, TpsOrdered *ordered, TpsTurnQueue *closes);
void tps_sequencer_finish (TpsSequencer *sequencer, TpsOrdered *ordered);

/* Releases the record, which the observer no longer needs, and calls ended() with `error`
 * (borrowed; NULL: none), so that the request is answered. Commands may be released in any order.
 * No lock may be held. Thread: any, even within a call of the observer. */
void tps_ordered_release (TpsOrdered *ordered, const GError *error);

/* Returns the LSN of the last admitted command; 0 = there is none. */
gint64 tps_sequencer_get_lsn (TpsSequencer *sequencer);

/* Returns the largest LSN such that ended() has returned for all commands up to this LSN; 0 =
 * there is none. There must be an observer. */
gint64 tps_sequencer_get_ended_lsn (TpsSequencer *sequencer);

/* Waits until ended() has returned for all commands up to `lsn`, which must have been admitted.
 * FALSE: `deadline_ns` (monotonic) passed first. There must be an observer. Thread: one at a
 * time. */
gboolean tps_sequencer_wait_ended (TpsSequencer *sequencer, gint64 lsn, gint64 deadline_ns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSequencer, tps_sequencer_free)

G_END_DECLS
