/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An event loop: one thread with an epoll set, timers, and functions that other threads post.
 * Callbacks run on this thread and must not block. If events come in quick succession, the loop
 * spins before it sleeps (spin.h), at most THRIFTPS_SPIN_US microseconds (environment; 0 =
 * never). */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsLoop TpsLoop;
typedef struct TpsWatch TpsWatch;

typedef void (*TpsLoopFunc) (gpointer user_data);
typedef void (*TpsWatchFunc) (guint32 epoll_events, gpointer user_data);

/* Starts a loop, owned by the caller. Errors: RESOURCE_EXHAUSTED (descriptors, threads). */
TpsLoop *tps_loop_new (const gchar *name, GError **error);
/* Runs the functions that have already been posted, stops and joins the thread, and frees the loop.
 * All watches must have been removed. Must not be called on the loop's thread. */
void tps_loop_free (TpsLoop *loop);

/* Returns TRUE if the calling thread is the loop's thread. Thread: any. */
gboolean tps_loop_is_current (const TpsLoop *loop);

/* Posts a function to the loop; functions run in the order of posts. Thread: any. */
void tps_loop_post (TpsLoop *loop, TpsLoopFunc func, gpointer user_data);

/* Runs `func` on the loop and waits until it has returned. Must not be called on the loop. */
void tps_loop_call (TpsLoop *loop, TpsLoopFunc func, gpointer user_data);

/* Watch `fd`, which the caller still owns; level-triggered unless EPOLLET is given. The loop owns
 * the watch. After its removal, `func` is not called. Errors: RESOURCE_EXHAUSTED if the kernel
 * refuses; an existing watch is then unchanged. Thread: the loop's; any for modify. */
TpsWatch *tps_loop_add_watch (TpsLoop *loop, gint fd, guint32 epoll_events, TpsWatchFunc func,
                              gpointer user_data, GError **error);
gboolean tps_loop_modify_watch (TpsLoop *loop, TpsWatch *watch, guint32 epoll_events,
                                GError **error);
void tps_loop_remove_watch (TpsLoop *loop, TpsWatch *watch);

/* Adds a one-shot timer that fires at or soon after `deadline_ns` (monotonic), and returns its id;
 * ids are never 0 and never reused. Cancelling a timer that has fired has no effect. Thread: the
 * loop's. */
guint64 tps_loop_add_timer (TpsLoop *loop, gint64 deadline_ns, TpsLoopFunc func,
                            gpointer user_data);
void tps_loop_cancel_timer (TpsLoop *loop, guint64 timer_id);

/* Returns the time of the loop's last wake-up or tps_loop_yield() on the monotonic clock, without
 * reading the clock. Thread: the loop's. */
gint64 tps_loop_get_event_ns (const TpsLoop *loop);

/* Returns TRUE if only the running watch had an event and the next event is likely to come soon
 * (spin.h). The callback of the watch may then try to receive that event before it returns. Thread:
 * the loop's. */
gboolean tps_loop_expects_more (TpsLoop *loop);

/* Returns TRUE on a loop's thread if its current wake-up has a single event and no function is
 * posted. Longer work in the running callback then delays no other event that has arrived. Returns
 * FALSE on other threads. Thread: any. */
gboolean tps_loop_is_undisturbed (void);

/* Yields the core to other threads for a moment. Returns FALSE if the yield took long: another
 * thread needs the core, so a spin must end. Thread: the loop's. */
gboolean tps_loop_yield (TpsLoop *loop);

G_END_DECLS
