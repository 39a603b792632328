/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/magazine.h"

#include <string.h>

#include "runtime/base/sanitizers.h"
#include "runtime/base/sync.h"

#define HALF (TPS_MAGAZINE_OBJECTS / 2)

static pthread_once_t list_once = PTHREAD_ONCE_INIT;
static pthread_key_t list_key; /* its value is the first magazine of the thread */

/* The destructor of the key, called at the end of a thread. If later destructors free objects, the
 * magazines form a new list, for which this function is called again. */
static void
empty_list (gpointer first)
{
  for (TpsMagazine *magazine = first, *next; magazine != NULL; magazine = next)
    {
      TpsDepot *depot = g_steal_pointer (&magazine->depot);

      next = magazine->next;
      while (magazine->n_objects > 0)
        depot->destroy (magazine->objects[--magazine->n_objects]);
    }
}

static void
create_list_key (void)
{
  tps_sync_check (pthread_key_create (&list_key, empty_list));
}

static void
enter_list (TpsMagazine *magazine, TpsDepot *depot)
{
  tps_sync_check (pthread_once (&list_once, create_list_key));
  magazine->depot = depot;
  magazine->next = pthread_getspecific (list_key);
  tps_sync_check (pthread_setspecific (list_key, magazine));
}

static void
refill (TpsMagazine *magazine, TpsDepot *depot)
{
  TPS_LOCK_SCOPE (&depot->lock);
  magazine->n_objects = MIN (depot->n_objects, HALF);
  depot->n_objects -= magazine->n_objects;
  memcpy (magazine->objects, depot->objects + depot->n_objects,
          magazine->n_objects * sizeof magazine->objects[0]);
}

/* Makes room: moves half a magazine to the depot, the objects that were put in first. Objects that
 * do not fit into the depot are destroyed without the lock. */
static void
spill (TpsMagazine *magazine, TpsDepot *depot)
{
  gpointer surplus[HALF];
  guint n_moved;

  memcpy (surplus, magazine->objects, sizeof surplus);
  magazine->n_objects -= HALF;
  memmove (magazine->objects, magazine->objects + HALF,
           magazine->n_objects * sizeof magazine->objects[0]);

  tps_mutex_lock (&depot->lock);
  n_moved = MIN (TPS_DEPOT_OBJECTS - depot->n_objects, HALF);
  memcpy (depot->objects + depot->n_objects, surplus, n_moved * sizeof surplus[0]);
  depot->n_objects += n_moved;
  tps_mutex_unlock (&depot->lock);
  while (n_moved < HALF)
    depot->destroy (surplus[n_moved++]);
}

gpointer
tps_magazine_take (TpsMagazine *magazine, TpsDepot *depot)
{
  if (magazine->n_objects == 0)
    refill (magazine, depot);
  if (magazine->n_objects > 0 && magazine->depot == NULL)
    enter_list (magazine, depot);
  return magazine->n_objects > 0 ? magazine->objects[--magazine->n_objects] : NULL;
}

void
tps_magazine_put (TpsMagazine *magazine, TpsDepot *depot, gpointer object)
{
  if (TPS_HAS_ADDRESS_SANITIZER)
    {
      depot->destroy (object);
      return;
    }
  if (magazine->depot == NULL)
    enter_list (magazine, depot);
  if (magazine->n_objects == TPS_MAGAZINE_OBJECTS)
    spill (magazine, depot);
  magazine->objects[magazine->n_objects++] = object;
}
