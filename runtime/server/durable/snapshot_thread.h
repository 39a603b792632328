/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The thread that writes snapshots: on request, at intervals, and when the log has grown. It
 * accepts one job at a time.
 *
 *   submit()        a requested job
 *   begin()         from now on snapshots also become due automatically
 *   step()          does the next job, if there is one; run() takes steps until stop()
 *
 * Tests call step() with a clock of their own. Thread: any, unless stated otherwise.
 */

#pragma once

#include "runtime/base/sync.h"

G_BEGIN_DECLS

/* The delay after an automatic snapshot has failed. */
#define TPS_SNAPSHOT_RETRY_NS ((gint64) 60 * 1000000000)

typedef struct
{
  gint64 interval_ns; /* since the start of the last snapshot; 0 = not by time */
  gint64 log_bytes;   /* the growth of the log since that start; 0 = not by size */
  /* Writes an automatic snapshot; blocks. FALSE: it failed, and will be tried again after
   * TPS_SNAPSHOT_RETRY_NS. */
  gboolean (*write) (gpointer user_data);
  /* The length of the log, deleted segments included. Must not block. */
  gint64 (*get_log_bytes) (gpointer user_data);
  gpointer user_data;
} TpsSnapshotThreadOptions;

typedef struct
{
  void (*run) (gpointer data); /* may block */
  /* Called after run(), when the thread accepts jobs again. */
  void (*ended) (gpointer data);
  gpointer data;
} TpsSnapshotJob;

typedef struct
{
  TpsSnapshotThreadOptions options;
  TpsMutex lock; /* guards the fields below */
  TpsCond changed;
  gboolean has_begun;
  gboolean stops;
  gboolean is_busy;   /* a job waits or runs, or an automatic snapshot is being written */
  TpsSnapshotJob job; /* the waiting job; run == NULL: none */
  gint64 last_ns;     /* when the last snapshot was begun */
  gint64 last_bytes;  /* the length of the log at `last_ns` */
  gint64 retry_ns;    /* the earliest time of the next automatic snapshot; 0 = any time */
} TpsSnapshotThread;

/* Initialises `thread`, in the caller's storage. Starts no thread: the caller must provide one that
 * calls run(). Copies `options`. */
void tps_snapshot_thread_init (TpsSnapshotThread *thread, const TpsSnapshotThreadOptions *options);
/* Frees the contents of `thread`. run() must have returned. */
void tps_snapshot_thread_clear (TpsSnapshotThread *thread);

/* Begins automatic snapshots: counts time from `now_ns`, and bytes of the log from `log_bytes`. */
void tps_snapshot_thread_begin (TpsSnapshotThread *thread, gint64 now_ns, gint64 log_bytes);

/* Submits `job`, which is copied. Errors: RESOURCE_EXHAUSTED with retry_after_ms (the thread has a
 * job, writes an automatic snapshot, or stops). */
gboolean tps_snapshot_thread_submit (TpsSnapshotThread *thread, const TpsSnapshotJob *job,
                                     GError **error);

/* Makes a snapshot that a job has written count as an automatic one: the next one is due an
 * interval after `now_ns`, or when the log has grown from `log_bytes`. */
void tps_snapshot_thread_note (TpsSnapshotThread *thread, gint64 now_ns, gint64 log_bytes);

/* Runs the waiting job, or writes a snapshot that is due. FALSE: there was nothing to do. Sets
 * `wake_ns` to the time of the next attempt (G_MAXINT64: none, unless a job is submitted). Thread:
 * one call at a time. */
gboolean tps_snapshot_thread_step (TpsSnapshotThread *thread, gint64 now_ns, gint64 *wake_ns);

/* Takes steps until stop(). A job that was submitted before stop() still runs. */
void tps_snapshot_thread_run (TpsSnapshotThread *thread);

/* Makes run() return after the present and an already submitted job. Thread: any. */
void tps_snapshot_thread_stop (TpsSnapshotThread *thread);

G_END_DECLS
