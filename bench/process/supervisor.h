/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The child processes of a launcher, one for each role. No child outlives the launcher.
 *
 * Children get SIGKILL from the kernel when the launcher ends for any reason. Thread: the thread
 * that created the supervisor.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsSupervisor TpsSupervisor;

TpsSupervisor *tps_supervisor_new (void);

/* Stops the remaining children (tps_supervisor_stop() without a wait) and frees the supervisor. */
void tps_supervisor_free (TpsSupervisor *supervisor);

/* Starts `argv` (NULL-terminated); `name` is for messages. `stdin_fd` and `stdout_fd` receive pipes
 * to the child, which the caller must close; NULL: inherited. Errors: TPS_ERROR_UNAVAILABLE, also
 * for a program that cannot be executed. */
gboolean tps_supervisor_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv,
                               gint *stdin_fd, gint *stdout_fd, GError **error);

/* Sets a function that is called every tenth of a second during waits for a child's output, to show
 * progress. */
void tps_supervisor_set_waiting (TpsSupervisor *supervisor, void (*waiting) (gpointer user_data),
                                 gpointer user_data);
void tps_supervisor_call_waiting (TpsSupervisor *supervisor);

/* Returns the process id of the child that was started last. */
gint tps_supervisor_get_newest_pid (TpsSupervisor *supervisor);

/* Returns TRUE if all children are running. Never blocks. Errors: TPS_ERROR_ABORTED naming the
 * child that has ended, and how. */
gboolean tps_supervisor_check (TpsSupervisor *supervisor, GError **error);

/* Returns TRUE if the child of this name has ended; `why` then tells how. Its end is not reported
 * again. Never blocks. */
gboolean tps_supervisor_forget_dead (TpsSupervisor *supervisor, const gchar *name, GError **why);

/* Waits until the child with this process id has ended, and forgets it. Returns TRUE if its status
 * was 0; otherwise `why` tells how it ended. Blocks, so the child must be about to end. */
gboolean tps_supervisor_reap (TpsSupervisor *supervisor, gint pid, GError **why);

/* As tps_supervisor_check(), for a caller that has lost the connection to a child: its end may
 * become visible shortly after its sockets have closed. Blocks for `patience_ms` if all children
 * are running. */
gboolean tps_supervisor_check_patiently (TpsSupervisor *supervisor, guint patience_ms,
                                         GError **error);

/* Sends SIGTERM to all children, waits for at most `patience_ms`, and kills the rest. Returns TRUE
 * if all ended with status 0 or by that SIGTERM. */
gboolean tps_supervisor_stop (TpsSupervisor *supervisor, guint patience_ms);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSupervisor, tps_supervisor_free)

G_END_DECLS
