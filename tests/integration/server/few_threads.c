/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A library for LD_PRELOAD: pthread_create() fails while MAX_THREADS threads, besides the first
 * one, exist. */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_int n_threads;

typedef struct
{
  void *(*run) (void *data);
  void *data;
} Work;

static void *
run_and_count (void *data)
{
  Work work = *(Work *) data;
  void *result;

  free (data);
  result = work.run (work.data);
  atomic_fetch_sub (&n_threads, 1);
  return result;
}

int
pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*run) (void *),
                void *data)
{
  typedef int (*Create) (pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
  Create create = (Create) dlsym (RTLD_NEXT, "pthread_create");
  const char *max_threads = getenv ("MAX_THREADS");
  Work *work;
  int code;

  if (max_threads != NULL && atomic_load (&n_threads) >= atoi (max_threads))
    return EAGAIN;
  work = malloc (sizeof *work);
  *work = (Work) { run, data };
  atomic_fetch_add (&n_threads, 1);
  code = create (thread, attributes, run_and_count, work);
  if (code == 0)
    return 0;
  atomic_fetch_sub (&n_threads, 1);
  free (work);
  return code;
}
