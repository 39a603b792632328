/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/magazine.h"

#include <string.h>

#define HALF (TPS_MAGAZINE_OBJECTS / 2)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_NOTHING TRUE
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_NOTHING TRUE
#endif
#ifndef KEEPS_NOTHING
#define KEEPS_NOTHING FALSE
#endif

static pthread_once_t list_once = PTHREAD_ONCE_INIT;
static pthread_key_t list_key; /* the first magazine of the thread */

/* At the end of a thread. What the destructors of others still free makes a new list, and comes here again. */
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

/* Takes up to half a magazine from the depot. */
static void
refill (TpsMagazine *magazine, TpsDepot *depot)
{
  guint n_left, n_moved;

  tps_mutex_lock (&depot->lock);
  n_left = atomic_load_explicit (&depot->n_objects, memory_order_relaxed);
  n_moved = MIN (n_left, HALF);
  n_left -= n_moved;
  memcpy (magazine->objects, depot->objects + n_left, n_moved * sizeof magazine->objects[0]);
  atomic_store_explicit (&depot->n_objects, n_left, memory_order_relaxed);
  tps_mutex_unlock (&depot->lock);
  magazine->n_objects = n_moved;
}

/* Makes room for half a magazine, of what has lain there longest. */
static void
spill (TpsMagazine *magazine, TpsDepot *depot)
{
  gpointer surplus[HALF];
  guint n_kept, n_moved;

  memcpy (surplus, magazine->objects, sizeof surplus);
  magazine->n_objects -= HALF;
  memmove (magazine->objects, magazine->objects + HALF,
           magazine->n_objects * sizeof magazine->objects[0]);

  tps_mutex_lock (&depot->lock);
  n_kept = atomic_load_explicit (&depot->n_objects, memory_order_relaxed);
  n_moved = MIN (TPS_DEPOT_OBJECTS - n_kept, HALF);
  memcpy (depot->objects + n_kept, surplus, n_moved * sizeof surplus[0]);
  atomic_store_explicit (&depot->n_objects, n_kept + n_moved, memory_order_relaxed);
  tps_mutex_unlock (&depot->lock);
  while (n_moved < HALF)
    depot->destroy (surplus[n_moved++]);
}

gpointer
tps_magazine_take (TpsMagazine *magazine, TpsDepot *depot)
{
  if (magazine->n_objects == 0
      && atomic_load_explicit (&depot->n_objects, memory_order_relaxed) > 0)
    {
      if (magazine->depot == NULL)
        enter_list (magazine, depot);
      refill (magazine, depot);
    }
  return magazine->n_objects > 0 ? magazine->objects[--magazine->n_objects] : NULL;
}

void
tps_magazine_put (TpsMagazine *magazine, TpsDepot *depot, gpointer object)
{
  if (KEEPS_NOTHING)
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
