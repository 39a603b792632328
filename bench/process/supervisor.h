/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The processes that a launcher starts: each role one child, none of which outlives the launcher.
 *
 * Children get SIGKILL from the kernel when the launcher dies, however it dies. Single-threaded:
 * all calls from the thread that made the supervisor.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsSupervisor TpsSupervisor;

TpsSupervisor *tps_supervisor_new (void);

/* Stops what still runs (tps_supervisor_stop() with no patience), frees. */
void tps_supervisor_free (TpsSupervisor *supervisor);

/* Starts `argv` (NULL-terminated) under a name for messages. `stdin_fd` and `stdout_fd` (NULL:
 * inherited) get pipes to the child, the caller's to close. Errors: TPS_ERROR_UNAVAILABLE; a
 * program that cannot be run is one. */
gboolean tps_supervisor_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv,
                               gint *stdin_fd, gint *stdout_fd, GError **error);

/* `waiting` is called every tenth of a second while the supervisor's owner waits for a child's
 * words: to show progress. */
void tps_supervisor_set_waiting (TpsSupervisor *supervisor, void (*waiting) (gpointer user_data),
                                 gpointer user_data);
void tps_supervisor_call_waiting (TpsSupervisor *supervisor);

/* The process id of the child that was started last. */
gint tps_supervisor_get_newest_pid (TpsSupervisor *supervisor);

/* TRUE while all children live. Otherwise TPS_ERROR_ABORTED that says who ended and how. Never
 * blocks. */
gboolean tps_supervisor_check (TpsSupervisor *supervisor, GError **error);

/* Whether the child of this name has ended, `why` then says how. Its end is not reported again.
 * Never blocks. */
gboolean tps_supervisor_forget_dead (TpsSupervisor *supervisor, const gchar *name, GError **why);

/* Waits until the child with this process id has ended, and forgets it. TRUE: its status was 0;
 * otherwise `why` says how it ended. Blocks: the child must be about to end. */
gboolean tps_supervisor_reap (TpsSupervisor *supervisor, gint pid, GError **why);

/* tps_supervisor_check() for a caller that has lost touch with a child: its end may be seen a
 * moment after its sockets have closed. Blocks for `patience_ms` where all live on. */
gboolean tps_supervisor_check_patiently (TpsSupervisor *supervisor, guint patience_ms,
                                         GError **error);

/* Asks all children to end (SIGTERM), waits at most `patience_ms`, kills the rest. TRUE when all
 * ended by themselves with status 0 or by that SIGTERM. */
gboolean tps_supervisor_stop (TpsSupervisor *supervisor, guint patience_ms);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSupervisor, tps_supervisor_free)

G_END_DECLS
