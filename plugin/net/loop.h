/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One thread with one epoll set: file descriptors, timers, and functions posted from other threads.
 *
 * Callbacks run on the loop's thread and must not block.
 *
 * A loop whose events come in quick succession looks for the next one for a while before it sleeps
 * (spin.h). THRIFTPS_SPIN_US in the environment says for how many microseconds at most; 0 = always
 * sleep.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsLoop TpsLoop;
typedef struct TpsWatch TpsWatch;

typedef void (*TpsLoopFunc) (gpointer user_data);
typedef void (*TpsWatchFunc) (guint32 epoll_events, gpointer user_data);

/* Errors: RESOURCE_EXHAUSTED (descriptors, threads). */
TpsLoop *tps_loop_new (const gchar *name, GError **error);

/* Runs what was posted before, stops and joins the thread. Watches must be gone. Not from the
 * loop's thread. */
void tps_loop_free (TpsLoop *loop);

gboolean tps_loop_is_current (const TpsLoop *loop);

/* Thread: any. First in, first out. */
void tps_loop_post (TpsLoop *loop, TpsLoopFunc func, gpointer user_data);

/* Runs `func` on the loop's thread and waits until it has returned. Not from the loop's thread. */
void tps_loop_call (TpsLoop *loop, TpsLoopFunc func, gpointer user_data);

/* Watches `fd` (stays the caller's) for EPOLLIN/EPOLLOUT…; level-triggered unless EPOLLET is given.
 * add and remove on the loop's thread; modify from any thread while the watch lives. After remove,
 * `func` is not called. Errors: RESOURCE_EXHAUSTED if the kernel refuses (ENOMEM, ENOSPC:
 * fs.epoll.max_user_watches, …); the watch is as before. */
TpsWatch *tps_loop_add_watch (TpsLoop *loop, gint fd, guint32 epoll_events, TpsWatchFunc func,
                              gpointer user_data, GError **error);
gboolean tps_loop_modify_watch (TpsLoop *loop, TpsWatch *watch, guint32 epoll_events,
                                GError **error);
void tps_loop_remove_watch (TpsLoop *loop, TpsWatch *watch);

/* One-shot, at or soon after `deadline_ns` (monotonic). On the loop's thread. Ids are never 0 and
 * never reused. */
guint64 tps_loop_add_timer (TpsLoop *loop, gint64 deadline_ns, TpsLoopFunc func,
                            gpointer user_data);
void tps_loop_cancel_timer (TpsLoop *loop, guint64 timer_id);

/* When the loop last learned of events, on the monotonic clock: no later than now, and without
 * reading the clock. On the loop's thread. */
gint64 tps_loop_get_event_ns (const TpsLoop *loop);

/* Whether the watch that runs now is the only one that was ready, and more is likely to come to it
 * within moments (spin.h): then it may look for that itself before it returns. On the loop's
 * thread. */
gboolean tps_loop_expects_more (TpsLoop *loop);

/* Lets another thread have the core for a moment, if one waits for it. FALSE: not only for a
 * moment, so do not spin now. On the loop's thread. */
gboolean tps_loop_yield (TpsLoop *loop);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLoop, tps_loop_free)

G_END_DECLS
