/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A child that talks in lines on its standard input and output. Of a supervisor, and like it for
 * one thread. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

typedef struct TpsChild TpsChild;

/* As tps_supervisor_start(). `supervisor` is borrowed and outlives it. */
TpsChild *tps_child_start (TpsSupervisor *supervisor, const gchar *name, gchar **argv,
                           GError **error);

/* Closes the pipes, which is to end it; the supervisor sees to it that it does. */
void tps_child_free (TpsChild *child);

/* Errors: TPS_ERROR_ABORTED where it is gone. */
gboolean tps_child_send (TpsChild *child, const gchar *line, GError **error);

/* The next line, without its end; owned by the caller. Waits; errors: TPS_ERROR_ABORTED when a
 * child of the supervisor has ended, or interrupted (bench/process/interrupt.h). */
gchar *tps_child_receive (TpsChild *child, GError **error);

/* The first line of a script that runs on Python. Where it ends instead, the error says what such a
 * script needs. */
gchar *tps_child_receive_from_script (TpsChild *child, GError **error);

/* Sends a line, receives one. */
gchar *tps_child_ask (TpsChild *child, const gchar *line, GError **error);

/* Everything that a child prints until it ends by itself; owned by the caller. Waits; errors:
 * TPS_ERROR_ABORTED where its exit status is not 0, or interrupted. */
gchar *tps_child_receive_all (TpsChild *child, GError **error);

/* Sends SIGKILL and waits for the end. The supervisor forgets the child; tps_child_free() is still
 * to be called. */
void tps_child_kill (TpsChild *child);

/* Stops and goes on where it was: for children that would disturb others' measurements. One that
 * has not gone on does not see the end of its input. */
void tps_child_pause (TpsChild *child);
void tps_child_resume (TpsChild *child);

/* Bytes of memory that it has got, and open descriptors; 0 when it is gone. */
gsize tps_child_get_resident_bytes (const TpsChild *child);
guint tps_child_count_descriptors (const TpsChild *child);

/* The most bytes of memory that it has had since its start, or since the last reset; 0 when it is
 * gone. */
gsize tps_child_get_peak_bytes (const TpsChild *child);
void tps_child_reset_peak (const TpsChild *child);

/* Seconds of CPU that it has used; NAN when it is gone. */
gdouble tps_child_get_cpu (const TpsChild *child);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsChild, tps_child_free)

G_END_DECLS
