/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/kernels/group.h"

#include "runtime/base/buffer.h"

#define DIGIT_BITS 11
#define N_DIGITS (1 << DIGIT_BITS)

typedef struct
{
  gint64 id;
  gsize position;
} Entry;

static guint
digit_of (gint64 id, guint shift)
{
  return (guint) ((guint64) id >> shift) & (N_DIGITS - 1);
}

/* Performs one pass of a least-significant-digit radix sort, which is stable. */
static void
sort_by_digit (Entry *to, const Entry *from, gsize n, guint shift)
{
  gsize places[N_DIGITS] = { 0 };
  gsize place = 0;

  for (gsize i = 0; i < n; i++)
    places[digit_of (from[i].id, shift)]++;
  for (guint digit = 0; digit < N_DIGITS; digit++)
    {
      gsize count = places[digit];

      places[digit] = place;
      place += count;
    }
  for (gsize i = 0; i < n; i++)
    to[places[digit_of (from[i].id, shift)]++] = from[i];
}

/* Up to this number of ids, the insertion sort is used: the counting pass of the radix sort alone
 * would cost more. */
#define MAX_INSERTED 32

/* Performs an insertion sort, which is stable. */
static void
sort_few (Entry *entries, const gint64 *ids, gsize n)
{
  for (gsize i = 0; i < n; i++)
    {
      gsize place = i;

      for (; place > 0 && entries[place - 1].id > ids[i]; place--)
        entries[place] = entries[place - 1];
      entries[place] = (Entry) { .id = ids[i], .position = i };
    }
}

/* Sorts ids, alternately into the two halves of `scratch` [2 * n]. Returns the half with the
 * result. */
static Entry *
sort_ids (Entry *scratch, const gint64 *ids, gsize n)
{
  Entry *from = scratch;
  Entry *to = scratch + n;
  gint64 largest = 0;

  if (n <= MAX_INSERTED)
    {
      sort_few (from, ids, n);
      return from;
    }
  for (gsize i = 0; i < n; i++)
    {
      from[i] = (Entry) { .id = ids[i], .position = i };
      largest = MAX (largest, ids[i]);
    }
  /* Above the largest id, all digits are 0. */
  for (guint shift = 0; shift < 63 && largest >> shift != 0; shift += DIGIT_BITS)
    {
      Entry *sorted = to;

      sort_by_digit (to, from, n, shift);
      to = from;
      from = sorted;
    }
  return from;
}

void
tps_cpu_groups_init (TpsCpuGroups *groups, gpointer memory, const gint64 *ids, gsize n_ids)
{
  Entry *scratch = memory;
  const Entry *sorted = sort_ids (scratch, ids, n_ids);

  G_STATIC_ASSERT (TPS_CPU_GROUPS_BYTES
                   == 2 * sizeof (Entry) + sizeof (gint64) + 2 * sizeof (gsize));
  groups->n_groups = 0;
  groups->starts = (gsize *) (gpointer) (scratch + 2 * n_ids);
  groups->order = groups->starts + n_ids + 1;
  groups->ids = (gint64 *) (gpointer) (groups->order + n_ids);
  for (gsize i = 0; i < n_ids; i++)
    {
      if (i == 0 || sorted[i].id != sorted[i - 1].id)
        {
          groups->ids[groups->n_groups] = sorted[i].id;
          groups->starts[groups->n_groups++] = i;
        }
      groups->order[i] = sorted[i].position;
    }
  groups->starts[groups->n_groups] = n_ids;
}

/* Groups and their memory. */
typedef struct
{
  TpsCpuGroups groups; /* must be the first member */
  TpsBuffer *memory;
} OwnedGroups;

TpsCpuGroups *
tps_cpu_groups_new (const gint64 *ids, gsize n_ids)
{
  OwnedGroups *owned = g_new (OwnedGroups, 1);

  owned->memory = tps_buffer_new ((n_ids + 1) * TPS_CPU_GROUPS_BYTES);
  tps_cpu_groups_init (&owned->groups, tps_buffer_get_data (owned->memory), ids, n_ids);
  return &owned->groups;
}

void
tps_cpu_groups_free (TpsCpuGroups *groups)
{
  OwnedGroups *owned = (OwnedGroups *) (gpointer) groups;

  tps_buffer_unref (owned->memory);
  g_free (owned);
}
