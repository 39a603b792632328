/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Keeps objects of one kind, which are made and freed with every call, for reuse.
 *
 * Each thread has a magazine of its own. Threads that only free pass their surplus to threads that
 * only allocate through the kind's depot, half a magazine at a time, so its lock is rarely taken.
 *
 *   static TpsDepot depot = TPS_DEPOT_INIT (release);
 *   static _Thread_local TpsMagazine magazine;
 *
 *   object = tps_magazine_take (&magazine, &depot);      NULL: make a new one
 *   tps_magazine_put (&magazine, &depot, object);        instead of release (object)
 *
 * At most TPS_MAGAZINE_OBJECTS are kept for each thread and TPS_DEPOT_OBJECTS in the depot; others
 * are destroyed, as those of a thread that exits, and all under the address sanitizer. */

#pragma once

#include <glib.h>
#include <pthread.h>

#define TPS_MAGAZINE_OBJECTS 32
#define TPS_DEPOT_OBJECTS 128

typedef struct
{
  GDestroyNotify destroy;
  pthread_mutex_t lock; /* guards the following */
  guint n_objects;
  gpointer objects[TPS_DEPOT_OBJECTS];
} TpsDepot;

#define TPS_DEPOT_INIT(destroy_func)                             \
  {                                                              \
    .destroy = (destroy_func), .lock = PTHREAD_MUTEX_INITIALIZER \
  }

typedef struct TpsMagazine TpsMagazine;
struct TpsMagazine
{
  guint n_objects;
  gpointer objects[TPS_MAGAZINE_OBJECTS];

  TpsDepot *depot;   /* set while the magazine must be emptied when the thread exits */
  TpsMagazine *next; /* of the same thread */
};

/* Returns a kept object with unchanged contents, which the caller then owns; NULL if there is none.
 * The magazine must be the calling thread's. */
gpointer tps_magazine_take (TpsMagazine *magazine, TpsDepot *depot);

/* Takes ownership of `object`, and keeps or destroys it. */
void tps_magazine_put (TpsMagazine *magazine, TpsDepot *depot, gpointer object);
