/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The child processes of a launcher, one for each role. No child outlives the launcher: the kernel
 * kills the children when the launcher exits for any reason. Thread: the thread that created the
 * supervisor. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsSupervisor TpsSupervisor;

/* Creates a supervisor without children. The caller owns the result. */
TpsSupervisor *tps_supervisor_new (void);

/* Kills the remaining children, and frees the supervisor. */
void tps_supervisor_free (TpsSupervisor *supervisor);

/* Starts the program `argv` (ended by NULL). `name` is for messages, and is copied. `stdin_fd` and
 * `stdout_fd` receive pipes to the child, which the caller must close; with NULL, the child
 * inherits the descriptor. Errors: UNAVAILABLE, also if the program cannot be executed. */
gboolean tps_supervisor_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv,
                               gint *stdin_fd, gint *stdout_fd, GError **error);

/* tps_supervisor_set_waiting() sets a function that shows progress during waits for the output of a
 * child. tps_supervisor_call_waiting() calls the function; every wait must call it at least every
 * tenth of a second. */
void tps_supervisor_set_waiting (TpsSupervisor *supervisor, void (*waiting) (gpointer user_data),
                                 gpointer user_data);
void tps_supervisor_call_waiting (TpsSupervisor *supervisor);

/* Returns the process id of the child that was started last. At least one child must exist. */
gint tps_supervisor_get_newest_pid (TpsSupervisor *supervisor);

/* Returns TRUE if all children are running. Never blocks. Errors: ABORTED, with the name and the
 * exit status of a child that has ended. */
gboolean tps_supervisor_check (TpsSupervisor *supervisor, GError **error);

/* Returns TRUE if the child `name` has ended. The supervisor then forgets the child, and `why`
 * receives its exit status as an error. Never blocks. */
gboolean tps_supervisor_forget_dead (TpsSupervisor *supervisor, const gchar *name, GError **why);

/* Waits until the child `pid` has ended, and forgets the child. Returns TRUE if the exit status is
 * 0; otherwise `why` receives the status as an error. The child must be about to end, because the
 * call blocks. */
gboolean tps_supervisor_reap (TpsSupervisor *supervisor, gint pid, GError **why);

/* As tps_supervisor_check(), for a caller that has lost the connection to a child. The end of a
 * child may become visible shortly after its sockets have closed. Blocks for `patience_ms` if all
 * children are running. */
gboolean tps_supervisor_check_patiently (TpsSupervisor *supervisor, guint patience_ms,
                                         GError **error);

/* Sends SIGTERM to all children, waits for at most `patience_ms`, and kills the remaining children.
 * If `patience_ms` is 0, kills them at once. Returns TRUE if each child has exited with status 0 or
 * by that SIGTERM. */
gboolean tps_supervisor_stop (TpsSupervisor *supervisor, guint patience_ms);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSupervisor, tps_supervisor_free)

G_END_DECLS
