/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A child process that communicates in lines on its standard input and output. It belongs to a
 * supervisor and must be used on the supervisor's thread. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

typedef struct TpsChild TpsChild;

/* Starts a child as tps_supervisor_start(). `supervisor` is borrowed and must outlive the child. */
TpsChild *tps_child_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv,
                           GError **error);

/* Closes the pipes, after which the child must end; otherwise the supervisor kills it. */
void tps_child_free (TpsChild *child);

/* Sends a line. Errors: TPS_ERROR_ABORTED if the child has ended. */
gboolean tps_child_send (TpsChild *child, const gchar *line, GError **error);

/* Returns the next line without its newline, owned by the caller. Blocks. Errors: TPS_ERROR_ABORTED
 * if a child of the supervisor has ended, or after an interrupt (bench/process/interrupt.h). */
gchar *tps_child_receive (TpsChild *child, GError **error);

/* Receives the first line of a Python script. If the script ends instead, the error names its
 * requirements. */
gchar *tps_child_receive_from_script (TpsChild *child, GError **error);

/* Sends a line and receives one. */
gchar *tps_child_ask (TpsChild *child, const gchar *line, GError **error);

/* Returns the complete output of a child that ends by itself, owned by the caller. Blocks. Errors:
 * TPS_ERROR_ABORTED if its exit status is not 0, or after an interrupt. */
gchar *tps_child_receive_all (TpsChild *child, GError **error);

/* Sends SIGKILL and waits for the end. The supervisor forgets the child; tps_child_free() must
 * still be called. */
void tps_child_kill (TpsChild *child);

/* Stop and continue a child that would disturb the measurements of others. A stopped child does not
 * notice the end of its input. */
void tps_child_pause (TpsChild *child);
void tps_child_resume (TpsChild *child);

/* Return the resident bytes of its memory and the number of its open descriptors; 0 if it has
 * ended. */
gsize tps_child_get_resident_bytes (const TpsChild *child);
guint tps_child_count_descriptors (const TpsChild *child);

/* Returns the largest number of resident bytes since its start or the last reset; 0 if it has
 * ended. */
gsize tps_child_get_peak_bytes (const TpsChild *child);
void tps_child_reset_peak (const TpsChild *child);

/* Returns the seconds of CPU time that it has used; NAN if it has ended. */
gdouble tps_child_get_cpu (const TpsChild *child);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsChild, tps_child_free)

G_END_DECLS
