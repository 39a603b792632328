/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The child processes of a launcher, one for each role. The kernel kills the children when the
 * launcher exits. Thread: the thread that created the supervisor. */

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

/* Sets a function that shows progress during waits for a child. Every wait must call it through
 * tps_supervisor_call_waiting() at least every tenth of a second. */
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
 * 0; otherwise `why` receives it as an error. Blocks. */
gboolean tps_supervisor_reap (TpsSupervisor *supervisor, gint pid, GError **why);

/* As tps_supervisor_check(), after the loss of a connection, which precedes the end of a child.
 * Blocks for `patience_ms` if all children are running. */
gboolean tps_supervisor_check_patiently (TpsSupervisor *supervisor, guint patience_ms,
                                         GError **error);

/* Sends SIGTERM to all children, waits for at most `patience_ms`, and kills the remaining children
 * (0: at once). Returns TRUE if each child has exited with status 0 or by that SIGTERM. */
gboolean tps_supervisor_stop (TpsSupervisor *supervisor, guint patience_ms);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSupervisor, tps_supervisor_free)

/* -- children that communicate -- */

/* A child process that communicates in lines on its standard input and output. A child belongs to a
 * supervisor and must be used on the thread of the supervisor. */
typedef struct TpsChild TpsChild;

/* Starts a child, as tps_supervisor_start() does. `supervisor` is borrowed and must outlive the
 * child. The caller owns the result. */
TpsChild *tps_child_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv,
                           GError **error);
/* Closes the pipes and frees the child, whose process must then end, or is killed later. */
void tps_child_free (TpsChild *child);

/* Sends a line, to which the function adds the newline. Errors: ABORTED if the child has exited. */
gboolean tps_child_send (TpsChild *child, const gchar *line, GError **error);

/* Returns the next line without its newline. The caller owns the result. Blocks. Errors: ABORTED if
 * the output of the child has ended, or after an interrupt (bench/process/interrupt.h). If a child
 * of the supervisor has ended, the error names that child. */
gchar *tps_child_receive (TpsChild *child, GError **error);

/* As tps_child_receive(), for the first line of a Python script. If the script exits instead, the
 * error (UNAVAILABLE) names the requirements of the script. */
gchar *tps_child_receive_from_script (TpsChild *child, GError **error);

/* Sends a line and returns the next one, as the functions above. The caller owns the result. */
gchar *tps_child_ask (TpsChild *child, const gchar *line, GError **error);

/* Receives a line "ok SECONDS REST" and returns the seconds; negative with an error. `*rest`
 * receives the rest, which the caller owns; NULL = not needed. Errors: those of
 * tps_child_receive(); INTERNAL (another line). */
gdouble tps_child_receive_seconds (TpsChild *child, gchar **rest, GError **error);

/* Returns the complete output of a child that exits by itself, and forgets the child as
 * tps_supervisor_reap() does. The caller owns the result. Blocks. Errors: ABORTED if the exit
 * status is not 0, or after an interrupt. */
gchar *tps_child_receive_all (TpsChild *child, GError **error);

/* Sends SIGKILL and waits for the end of the process. The supervisor forgets the child. The caller
 * must still call tps_child_free(). */
void tps_child_kill (TpsChild *child);

/* Stop and continue a child that would disturb the measurements of other systems. A stopped child
 * does not notice the end of its input. */
void tps_child_pause (TpsChild *child);
void tps_child_resume (TpsChild *child);

/* Return the child's resident memory, its maximum since the start or the last reset, the number of
 * open descriptors, and the CPU time in seconds; 0 or NAN if it has exited. */
gsize tps_child_get_resident_bytes (const TpsChild *child);
gsize tps_child_get_peak_bytes (const TpsChild *child);
void tps_child_reset_peak (const TpsChild *child);
guint tps_child_count_descriptors (const TpsChild *child);
gdouble tps_child_get_cpu (const TpsChild *child);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsChild, tps_child_free)

G_END_DECLS
