/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The messages of a server to its service manager (sd_notify(3)): a state machine without a clock.
 * Its owner must call tps_supervision_turn() about four times a second.
 *
 *   starting -> ready   READY=1 when the data directory has been recovered, or there is none; until
 *                       then STATUS= every second, with an extension of the start timeout
 *   ready               WATCHDOG=1 while the threads run; STATUS= with the reason when changes are
 *                       refused
 *   ready -> ready      RELOADING=1, then READY=1 again
 *   any -> stopping     STOPPING=1, once; no message follows
 *
 * If the manager does not accept a message, the next turn sends it again, except STATUS= while
 * starting. STOPPING=1 is sent again by the next call of tps_supervision_stop(). Thread: one at a
 * time.
 */

#pragma once

#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

typedef struct
{
  /* Sends one message. FALSE: the manager did not accept it. */
  gboolean (*send) (gpointer user_data, const gchar *message);
  /* Returns TRUE if the threads run; see tps_server_check_threads(). The supervision frees
   * `missing`. Called only if there is a watchdog, and only when the server is ready. */
  gboolean (*check_threads) (gpointer user_data, gint64 patience_ns, gchar **missing);
  /* Gets the status of the data directory. FALSE: there is none, and `status` is unchanged. */
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
  TpsDurableStatus told; /* in the last message to the manager; all zero = none */
  gint64 reload_ns;      /* of a RELOADING=1 that the manager has not accepted; 0 = none */
  gint64 next_status_ns;
  gint64 next_beat_ns;
} TpsSupervision;

/* Initializes the supervision, in the state STARTING. `ops`, `user_data` and `addresses` are
 * borrowed while it is used. `watchdog_ns` is the timeout of the watchdog; 0 = there is none. */
void tps_supervision_init (TpsSupervision *supervision, const TpsSupervisionOps *ops,
                           gpointer user_data, const gchar *addresses, gint64 watchdog_ns);

/* Sends the messages that are due. Must be called about four times a second. `now_ns` must be a
 * time of CLOCK_MONOTONIC. */
void tps_supervision_turn (TpsSupervision *supervision, gint64 now_ns);

/* Report the begin and the end of a reload of files. `now_ns` must be a time of CLOCK_MONOTONIC,
 * because the manager compares it with its own clock. */
void tps_supervision_begin_reload (TpsSupervision *supervision, gint64 now_ns);
void tps_supervision_end_reload (TpsSupervision *supervision);

/* Sends STOPPING=1, until the manager has accepted it once. No other message follows. */
void tps_supervision_stop (TpsSupervision *supervision);

/* Returns the value of WATCHDOG_USEC in nanoseconds if WATCHDOG_PID is `pid` or NULL. Returns 0 if
 * there is no watchdog for this process, or a text is not a number. */
gint64 tps_supervision_parse_watchdog (const gchar *watchdog_usec, const gchar *watchdog_pid,
                                       gint64 pid);

G_END_DECLS
