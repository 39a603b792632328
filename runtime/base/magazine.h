/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Objects of one kind that are made and freed with every call, kept for reuse.
 *
 * Each thread has a few at hand, its magazine, which nobody else touches. A thread that only frees
 * (a worker that answers) passes its surplus on to threads that only allocate (one that receives)
 * through the kind's depot, half a magazine at a time, so that the depot's lock is hardly ever
 * taken. What does not fit into the depot is destroyed.
 *
 *   static TpsDepot depot = TPS_DEPOT_INIT (release);
 *   static _Thread_local TpsMagazine magazine;
 *
 *   object = tps_magazine_take (&magazine, &depot);      NULL: make a new one
 *   tps_magazine_put (&magazine, &depot, object);        instead of release (object)
 *
 * Kept at most: TPS_MAGAZINE_OBJECTS for each thread that frees objects of the kind,
 * TPS_DEPOT_OBJECTS in all besides; so large ones are not to be kept. What a thread has is
 * destroyed when it ends. Under the address sanitizer nothing is kept, so that it still sees who
 * uses what was freed.
 */

#pragma once

#include <glib.h>
#include <pthread.h>

G_BEGIN_DECLS

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

  TpsDepot *depot;   /* while the thread is to empty it when it ends */
  TpsMagazine *next; /* of the same thread */
};

/* An object as it was put in, by whichever thread; NULL when there is none. */
gpointer tps_magazine_take (TpsMagazine *magazine, TpsDepot *depot);

/* Keeps `object`, or destroys it. */
void tps_magazine_put (TpsMagazine *magazine, TpsDepot *depot, gpointer object);

G_END_DECLS
