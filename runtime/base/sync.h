/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Locks, conditions, threads and reference counts on pthreads and C11 atomics: the thread sanitizer
 * does not see GLib's, which are built on futexes. All functions abort on misuse. */

#pragma once

#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <time.h>

#ifndef __cplusplus
#include <stdatomic.h>
#endif

G_BEGIN_DECLS

typedef pthread_mutex_t TpsMutex;
typedef pthread_cond_t TpsCond;
typedef pthread_t TpsThread;

#define TPS_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

/* Aborts unless `rc`, the result of a pthread function, is 0. */
static inline void
tps_sync_check (int rc)
{
  if (G_UNLIKELY (rc != 0))
    g_error ("pthread call failed: %s", g_strerror (rc));
}

/* Initialises a mutex, and later releases its resources. The mutex must be unlocked then. */
static inline void
tps_mutex_init (TpsMutex *mutex)
{
  tps_sync_check (pthread_mutex_init (mutex, NULL));
}

static inline void
tps_mutex_clear (TpsMutex *mutex)
{
  tps_sync_check (pthread_mutex_destroy (mutex));
}

/* Locks a mutex, which the calling thread must not hold, and unlocks a mutex that it holds. Locking
 * blocks until the mutex is free. Thread: any. */
static inline void
tps_mutex_lock (TpsMutex *mutex)
{
  tps_sync_check (pthread_mutex_lock (mutex));
}

static inline void
tps_mutex_unlock (TpsMutex *mutex)
{
  tps_sync_check (pthread_mutex_unlock (mutex));
}

static inline TpsMutex *
tps_mutex_lock_for_scope (TpsMutex *mutex)
{
  tps_mutex_lock (mutex);
  return mutex;
}

static inline void
tps_mutex_unlock_scope (TpsMutex **mutex)
{
  tps_mutex_unlock (*mutex);
}

/* Locks a mutex until the end of the block, before objects that were declared earlier are freed. */
#define TPS_LOCK_SCOPE(mutex)                                            \
  __attribute__ ((cleanup (tps_mutex_unlock_scope))) TpsMutex *G_PASTE ( \
      locked_, __LINE__) = tps_mutex_lock_for_scope (mutex)

/* A lock for any number of readers or one writer. */
typedef pthread_rwlock_t TpsRwLock;

/* Initialises a lock, and later releases its resources. No thread may hold the lock then. */
static inline void
tps_rw_lock_init (TpsRwLock *lock)
{
  tps_sync_check (pthread_rwlock_init (lock, NULL));
}

static inline void
tps_rw_lock_clear (TpsRwLock *lock)
{
  tps_sync_check (pthread_rwlock_destroy (lock));
}

/* Takes the lock as one of its readers. Blocks while a writer holds it. The calling thread must not
 * hold the lock already. Thread: any. */
static inline void
tps_rw_lock_read (TpsRwLock *lock)
{
  tps_sync_check (pthread_rwlock_rdlock (lock));
}

/* Takes the lock as its writer. Blocks while another thread holds it. The calling thread must not
 * hold the lock already. Thread: any. */
static inline void
tps_rw_lock_write (TpsRwLock *lock)
{
  tps_sync_check (pthread_rwlock_wrlock (lock));
}

/* Gives the lock back. The calling thread must hold it, as a reader or as the writer. */
static inline void
tps_rw_lock_unlock (TpsRwLock *lock)
{
  tps_sync_check (pthread_rwlock_unlock (lock));
}

/* Initialises a condition, which waits on the monotonic clock, and later releases its resources. No
 * thread may wait for the condition then. */
static inline void
tps_cond_init (TpsCond *cond)
{
  pthread_condattr_t attr;

  tps_sync_check (pthread_condattr_init (&attr));
  tps_sync_check (pthread_condattr_setclock (&attr, CLOCK_MONOTONIC));
  tps_sync_check (pthread_cond_init (cond, &attr));
  tps_sync_check (pthread_condattr_destroy (&attr));
}

static inline void
tps_cond_clear (TpsCond *cond)
{
  tps_sync_check (pthread_cond_destroy (cond));
}

/* Unlocks `mutex`, which the calling thread must hold, waits for a signal, and locks it again. May
 * return without a signal, so the caller must check its predicate in a loop. Thread: any. */
static inline void
tps_cond_wait (TpsCond *cond, TpsMutex *mutex)
{
  tps_sync_check (pthread_cond_wait (cond, mutex));
}

/* Waits as tps_cond_wait() does, but returns FALSE once `deadline_ns` (monotonic clock, see
 * tps_clock_now_ns()) has passed. */
static inline gboolean
tps_cond_wait_until (TpsCond *cond, TpsMutex *mutex, gint64 deadline_ns)
{
  struct timespec until = { .tv_sec = deadline_ns / 1000000000,
                            .tv_nsec = deadline_ns % 1000000000 };
  int rc = pthread_cond_timedwait (cond, mutex, &until);

  if (rc == ETIMEDOUT)
    return FALSE;
  tps_sync_check (rc);
  return TRUE;
}

/* Wakes one thread that waits for the condition, if there is one. The mutex need not be locked.
 * Thread: any. */
static inline void
tps_cond_signal (TpsCond *cond)
{
  tps_sync_check (pthread_cond_signal (cond));
}

/* Wakes all threads that wait for the condition. The mutex need not be locked. Thread: any. */
static inline void
tps_cond_broadcast (TpsCond *cond)
{
  tps_sync_check (pthread_cond_broadcast (cond));
}

/* Returns the time of the monotonic clock in nanoseconds. State machines must not call this
 * function; their callers pass `now_ns`. */
static inline gint64
tps_clock_now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

#ifdef __cplusplus /* tests in C++17 have no C11 atomics: they see a count, but cannot use it */
typedef guint TpsRefcount;
#else

/* The number of references to an object. */
typedef atomic_uint TpsRefcount;

/* Starts a count at 1, for the reference of the creator. */
static inline void
tps_refcount_init (TpsRefcount *refcount)
{
  atomic_init (refcount, 1);
}

/* Adds a reference. The caller must have one already. Thread: any. */
static inline void
tps_refcount_inc (TpsRefcount *refcount)
{
  atomic_fetch_add_explicit (refcount, 1, memory_order_relaxed);
}

/* Defines PREFIX_ref(), which adds a reference to an object with a `refcount` and returns it. */
#define TPS_DEFINE_REF(Type, prefix)      \
  Type *prefix##_ref (Type *object)       \
  {                                       \
    tps_refcount_inc (&object->refcount); \
    return object;                        \
  }

/* Removes a reference. Returns TRUE if it was the last one; the caller must then free the object,
 * and sees all earlier changes by threads that had a reference. Thread: any. */
static inline gboolean
tps_refcount_dec (TpsRefcount *refcount)
{
  return atomic_fetch_sub_explicit (refcount, 1, memory_order_acq_rel) == 1;
}

/* Returns TRUE if the caller has the only reference, and sees all earlier changes by threads that
 * had one. Thread: any. */
static inline gboolean
tps_refcount_is_one (TpsRefcount *refcount)
{
  return atomic_load_explicit (refcount, memory_order_acquire) == 1;
}

#endif

G_END_DECLS
