/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The messages of a server to its service manager (sd_notify(3)): a state machine without a clock.
 * Its owner must turn it about four times a second.
 *
 *   starting -> ready   READY=1 when there is nothing to recover, or it has been recovered; until
 *                       then STATUS= every second, with more time for the start
 *   ready               WATCHDOG=1 while the threads run;  STATUS= when the disk is full or fails
 *   ready -> ready      RELOADING=1, then READY=1 again
 *   any -> stopping     STOPPING=1, once; nothing after it
 *
 * If the manager does not take a message, the next turn sends it again, except STATUS= while
 * starting. Thread: one at a time.
 */

#pragma once

#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

typedef struct
{
  /* One message; FALSE: it was not taken. */
  gboolean (*send) (gpointer user_data, const gchar *message);
  /* Whether the threads run: tps_server_check_threads(). The supervision frees `missing`. Called
   * only with a watchdog, and when the server is ready. */
  gboolean (*check_threads) (gpointer user_data, gint64 patience_ns, gchar **missing);
  /* FALSE: the server has no data directory. */
  gboolean (*get_durability) (gpointer user_data, TpsDurableStatus *status);
} TpsSupervisionOps;

typedef enum
{
  TPS_SUPERVISION_STARTING = 0,
  TPS_SUPERVISION_READY,
  TPS_SUPERVISION_STOPPING,
} TpsSupervisionState;

typedef struct
{
  const TpsSupervisionOps *ops;
  gpointer user_data;
  const gchar *addresses; /* for the status; borrowed */
  gint64 watchdog_ns;     /* 0 = there is no watchdog */

  TpsSupervisionState state;
  TpsDurablePhase phase; /* that the manager was told last; 0 = none */
  gint64 next_status_ns;
  gint64 next_beat_ns;
} TpsSupervision;

/* `ops`, `user_data` and `addresses` are borrowed for the life of the supervision. */
void tps_supervision_init (TpsSupervision *supervision, const TpsSupervisionOps *ops,
                           gpointer user_data, const gchar *addresses, gint64 watchdog_ns);

/* Sends the messages that are due. Must be called about four times a second. `now_ns` is
 * CLOCK_MONOTONIC's. */
void tps_supervision_turn (TpsSupervision *supervision, gint64 now_ns);

/* Around a reload. `now_ns` is CLOCK_MONOTONIC's, which the manager compares with its own. */
void tps_supervision_begin_reload (TpsSupervision *supervision, gint64 now_ns);
void tps_supervision_end_reload (TpsSupervision *supervision);

/* The server is stopping: sends STOPPING=1 once. No other message follows. */
void tps_supervision_stop (TpsSupervision *supervision);

/* The value of WATCHDOG_USEC in nanoseconds if WATCHDOG_PID is `pid` or NULL; 0 = there is no
 * watchdog for this process. Errors: none; a text that is no number is 0. */
gint64 tps_supervision_parse_watchdog (const gchar *watchdog_usec, const gchar *watchdog_pid,
                                       gint64 pid);

G_END_DECLS
