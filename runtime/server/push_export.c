/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_export.h"

#include <string.h>

#include "runtime/server/push_window_private.h"

/* The format is little-endian, and records are copied to and from memory as they are. */
G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

#define WINDOW_RECORD 1
#define FLOOR_RECORD 2

/* The beginning of every record. */
typedef struct
{
  guint32 kind;
  guint32 n_bytes; /* of the whole record; a multiple of 8 */
} Head;

typedef struct
{
  guint64 is_set;
  gint64 sequence, lsn;
} Stair;

/* The record of a window. The name of the client follows, padded with zeros to a multiple of 8
 * bytes, and then the pushes, as TpsRememberedPush. */
typedef struct
{
  Head head;
  guint32 n_name;
  guint32 n_pushes;
  guint64 is_floor_kept;
  gint64 last_lsn;
  Stair now, earlier;
} WindowRecord;

typedef struct
{
  Head head;
  guint8 name[16];
  gint64 idle_ns;
  Stair now, earlier;
} FloorRecord;

G_STATIC_ASSERT (sizeof (TpsRememberedPush) == 40);
G_STATIC_ASSERT (sizeof (WindowRecord) == 80);
G_STATIC_ASSERT (sizeof (FloorRecord) == 80);

static Stair
stair_of (const TpsPushStair *stair)
{
  return (Stair) { stair->is_set != 0, stair->is_set ? stair->sequence : 0,
                   stair->is_set ? stair->lsn : 0 };
}

static TpsPushFloor
floor_of (const Stair *now, const Stair *earlier)
{
  return (TpsPushFloor) { .now = { now->is_set != 0, now->sequence, now->lsn },
                          .earlier = { earlier->is_set != 0, earlier->sequence, earlier->lsn } };
}

static gsize
padded (gsize n_bytes)
{
  return (n_bytes + 7) / 8 * 8;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void
append_window (const TpsPushClient *client, GByteArray *records)
{
  static const guint8 zeros[8];
  gsize n_name = strlen (client->name);
  gsize n_pushes = client->n_pushes * sizeof client->pushes[0];
  WindowRecord record = {
    .head = { WINDOW_RECORD, (guint32) (sizeof record + padded (n_name) + n_pushes) },
    .n_name = (guint32) n_name,
    .n_pushes = client->n_pushes,
    .is_floor_kept = client->is_floor_kept != 0,
    .last_lsn = client->last_lsn,
    .now = stair_of (&client->floor.now),
    .earlier = stair_of (&client->floor.earlier),
  };

  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  g_byte_array_append (records, (const guint8 *) client->name, (guint) n_name);
  g_byte_array_append (records, zeros, (guint) (padded (n_name) - n_name));
  g_byte_array_append (records, (const guint8 *) client->pushes, (guint) n_pushes);
}

static gboolean
append_next_floor (TpsPushWindow *window, gint64 now_ns, GByteArray *records)
{
  FloorRecord record = { .head = { FLOOR_RECORD, sizeof record } };
  TpsExportedFloor floor;

  if (!tps_push_floors_export_next (window->floors, now_ns, &floor))
    return FALSE;
  memcpy (record.name, floor.name, sizeof record.name);
  record.idle_ns = floor.idle_ns;
  record.now = stair_of (&floor.floor.now);
  record.earlier = stair_of (&floor.floor.earlier);
  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  return TRUE;
}

static gboolean
append_next_window (TpsPushWindow *window, GByteArray *records)
{
  TpsExportSide passed = tps_push_floors_get_passed_side (window->floors);
  GList *link = g_queue_pop_head_link (&window->sides[1 - passed]);
  TpsPushClient *client;

  if (link == NULL)
    return FALSE;
  client = link->data;
  client->side = passed;
  g_queue_push_tail_link (&window->sides[passed], link);
  append_window (client, records);
  return TRUE;
}

void
tps_push_export_begin (TpsPushWindow *window)
{
  GByteArray *rest = g_byte_array_new ();

  /* An abandoned export has left clients on the side to be visited. They must change sides before
   * the new export begins. */
  while (tps_push_export_some (window, rest))
    g_byte_array_set_size (rest, 0);
  g_byte_array_unref (rest);
  tps_mutex_lock (&window->lock);
  tps_push_floors_begin_export (window->floors);
  tps_mutex_unlock (&window->lock);
}

/* Exports floors first, because an import must read a client's floor before its window. */
gboolean
tps_push_export_some (TpsPushWindow *window, GByteArray *records)
{
  guint before = records->len;
  gint64 now_ns = window->options.get_now_ns ();

  tps_mutex_lock (&window->lock);
  while (records->len - before < TPS_PUSH_EXPORT_BYTES
         && (append_next_floor (window, now_ns, records) || append_next_window (window, records)))
    ;
  tps_mutex_unlock (&window->lock);
  return records->len > before;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Returns TRUE if the name is UTF-8 text without a 0 byte and the record has the length of its name
 * and its pushes. `rest` is the record after its fixed part, and need not be aligned. */
static gboolean
check_window (const WindowRecord *record, const guint8 *rest)
{
  if (record->n_name == 0 || memchr (rest, 0, record->n_name) != NULL
      || record->head.n_bytes
             != sizeof *record + padded (record->n_name)
                    + (guint64) record->n_pushes * sizeof (TpsRememberedPush))
    return FALSE;
  return g_utf8_validate ((const gchar *) rest, record->n_name, NULL);
}

static gboolean
are_ascending (const TpsPushClient *client)
{
  for (guint i = 1; i < client->n_pushes; i++)
    if (client->pushes[i - 1].sequence >= client->pushes[i].sequence)
      return FALSE;
  return TRUE;
}

/* Adds the pushes of a record to an empty window. If there is no room for them, raises the floor
 * instead. FALSE: the pushes are not in ascending order. */
static gboolean
add_pushes (TpsPushWindow *window, TpsPushClient *client, const guint8 *pushes, guint n)
{
  TpsRememberedPush push;

  if (tps_push_client_reserve (window, client, n))
    {
      memcpy (client->pushes, pushes, n * sizeof push);
      client->n_pushes = n;
      window->n_remembered += n;
      return are_ascending (client);
    }
  for (guint i = 0; i < n; i++)
    {
      memcpy (&push, pushes + i * sizeof push, sizeof push);
      tps_push_floor_raise (&client->floor, push.sequence, push.lsn);
    }
  return TRUE;
}

/* Adds the window of a record. If `is_floor_kept` is FALSE, a floor of this client that was
 * imported earlier is outdated, and is removed. If there is no room for the client, the window is
 * ignored. FALSE: the record is damaged, or the client has a window already. */
static gboolean
add_window (TpsPushWindow *window, const WindowRecord *record, const guint8 *rest)
{
  g_autofree gchar *name = g_strndup ((const gchar *) rest, record->n_name);
  gint64 now_ns = window->options.get_now_ns ();
  TpsPushFloor floor = floor_of (&record->now, &record->earlier);
  gboolean has_floor = tps_push_floors_find (window->floors, name, now_ns) != NULL;
  TpsPushClient *client;

  if (g_hash_table_contains (window->clients, name))
    return FALSE;
  if (has_floor && !record->is_floor_kept)
    {
      tps_push_floors_remove (window->floors, name);
      has_floor = FALSE;
    }
  client = tps_push_window_add_client (window, name, &floor,
                                       tps_push_floors_get_passed_side (window->floors));
  if (client == NULL)
    return TRUE;
  client->is_floor_kept = has_floor;
  client->last_lsn = record->last_lsn;
  return add_pushes (window, client, rest + padded (record->n_name), record->n_pushes);
}

static void
add_floor (TpsPushWindow *window, const FloorRecord *record)
{
  TpsExportedFloor floor = { .floor = floor_of (&record->now, &record->earlier),
                             .idle_ns = CLAMP (record->idle_ns, 0, G_MAXINT64 / 4) };

  memcpy (floor.name, record->name, sizeof floor.name);
  tps_push_floors_import (window->floors, window->options.get_now_ns (), &floor);
}

/* Reads one whole record. The lock is held. FALSE: the bytes are not a record. */
static gboolean
read_record (TpsPushWindow *window, const Head *head, const guint8 *bytes)
{
  WindowRecord record;
  FloorRecord floor;

  if (head->kind == FLOOR_RECORD && head->n_bytes == sizeof floor)
    {
      memcpy (&floor, bytes, sizeof floor);
      add_floor (window, &floor);
      return TRUE;
    }
  if (head->kind != WINDOW_RECORD || head->n_bytes <= sizeof record)
    return FALSE;
  memcpy (&record, bytes, sizeof record);
  return record.n_name <= head->n_bytes - sizeof record
         && check_window (&record, bytes + sizeof record)
         && add_window (window, &record, bytes + sizeof record);
}

gboolean
tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes, gsize *n_used)
{
  gboolean ok = TRUE;
  Head head;

  *n_used = 0;
  tps_mutex_lock (&window->lock);
  while (ok && n_bytes - *n_used >= sizeof head)
    {
      memcpy (&head, records + *n_used, sizeof head);
      if (head.n_bytes > n_bytes - *n_used)
        break;
      ok = head.n_bytes >= sizeof head && read_record (window, &head, records + *n_used);
      if (ok)
        *n_used += head.n_bytes;
    }
  tps_mutex_unlock (&window->lock);
  return ok;
}
