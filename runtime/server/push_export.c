/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_export.h"

#include <string.h>

#include "runtime/base/durability.h"
#include "runtime/server/push_window_private.h"

/* The format is little-endian, and records are copied to and from memory as they are. */
G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

#define WINDOW_RECORD 3
#define FLOOR_RECORD 4

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

/* The record of a window. The name of the client and the tenant follow, each padded with zeros to a
 * multiple of 8 bytes, and then the pushes, as TpsRememberedPush. */
typedef struct
{
  Head head;
  guint32 n_name;
  guint32 n_tenant; /* 0 = no tenant */
  guint64 n_pushes;
  gint64 idle_ns;
  gint64 last_lsn;
  Stair now, earlier;
} WindowRecord;

/* The record of a floor. The tenant follows, as above. */
typedef struct
{
  Head head;
  guint64 n_tenant;
  guint8 name[16];
  gint64 idle_ns;
  Stair now, earlier;
} FloorRecord;

G_STATIC_ASSERT (sizeof (TpsRememberedPush) == 40);
G_STATIC_ASSERT (sizeof (WindowRecord) == 88);
G_STATIC_ASSERT (sizeof (FloorRecord) == 88);

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

/* Returns the length of the share's tenant; 0 = no tenant. */
static gsize
count_tenant (const TpsPushShare *share)
{
  return share->tenant != NULL ? strlen (share->tenant) : 0;
}

static void
append_text (GByteArray *records, const gchar *text, gsize n_bytes)
{
  static const guint8 zeros[8];

  g_byte_array_append (records, (const guint8 *) text, (guint) n_bytes);
  g_byte_array_append (records, zeros, (guint) (padded (n_bytes) - n_bytes));
}

static void
append_window (const TpsPushClient *client, gint64 now_ns, GByteArray *records)
{
  gsize n_name = strlen (client->name);
  gsize n_tenant = count_tenant (client->share);
  gsize n_pushes = client->n_pushes * sizeof client->pushes[0];
  gsize n_bytes = sizeof (WindowRecord) + padded (n_name) + padded (n_tenant) + n_pushes;
  WindowRecord record = {
    .head = { WINDOW_RECORD, (guint32) n_bytes },
    .n_name = (guint32) n_name,
    .n_tenant = (guint32) n_tenant,
    .n_pushes = client->n_pushes,
    .idle_ns = now_ns - client->heard_ns,
    .last_lsn = client->last_lsn,
    .now = stair_of (&client->floor.now),
    .earlier = stair_of (&client->floor.earlier),
  };

  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  append_text (records, client->name, n_name);
  append_text (records, client->share->tenant, n_tenant);
  g_byte_array_append (records, (const guint8 *) client->pushes, (guint) n_pushes);
}

static gboolean
append_next_floor (TpsPushWindow *window, gint64 now_ns, GByteArray *records)
{
  FloorRecord record = { .head = { .kind = FLOOR_RECORD } };
  TpsExportedFloor floor;

  if (!tps_push_floors_export_next (window->floors, now_ns, &floor))
    return FALSE;
  record.n_tenant = count_tenant (floor.share);
  record.head.n_bytes = (guint32) (sizeof record + padded (record.n_tenant));
  memcpy (record.name, floor.name, sizeof record.name);
  record.idle_ns = floor.idle_ns;
  record.now = stair_of (&floor.floor.now);
  record.earlier = stair_of (&floor.floor.earlier);
  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  append_text (records, floor.share->tenant, record.n_tenant);
  return TRUE;
}

static gboolean
append_next_window (TpsPushWindow *window, gint64 now_ns, GByteArray *records)
{
  TpsExportSide passed = tps_push_floors_get_passed_side (window->floors);
  GList *link = g_queue_pop_head_link (&window->sides[1 - passed]);
  TpsPushClient *client;

  if (link == NULL)
    return FALSE;
  client = link->data;
  client->side = passed;
  g_queue_push_tail_link (&window->sides[passed], link);
  append_window (client, now_ns, records);
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

gboolean
tps_push_export_some (TpsPushWindow *window, GByteArray *records)
{
  guint before = records->len;
  gint64 now_ns = tps_push_window_now (window);

  tps_mutex_lock (&window->lock);
  while (records->len - before < TPS_PUSH_EXPORT_BYTES
         && (append_next_floor (window, now_ns, records)
             || append_next_window (window, now_ns, records)))
    ;
  tps_mutex_unlock (&window->lock);
  return records->len > before;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Returns the time of a client's last request. */
static gint64
to_heard_ns (TpsPushWindow *window, gint64 idle_ns)
{
  return tps_push_window_now (window) - CLAMP (idle_ns, 0, G_MAXINT64 / 4);
}

/* Returns TRUE if `bytes` are UTF-8 text without a 0 byte. */
static gboolean
is_text (const guint8 *bytes, gsize n_bytes)
{
  return memchr (bytes, 0, n_bytes) == NULL
         && g_utf8_validate ((const gchar *) bytes, (gssize) n_bytes, NULL);
}

static TpsPushShare *
find_share (TpsPushWindow *window, const guint8 *tenant, gsize n_tenant)
{
  g_autofree gchar *name = n_tenant > 0 ? g_strndup ((const gchar *) tenant, n_tenant) : NULL;

  return tps_push_window_find_share (window, name);
}

static gboolean
is_lsn (gint64 lsn)
{
  return lsn >= 0 && lsn <= TPS_MAX_COUNT;
}

/* Returns TRUE if the record has the length of its texts and its pushes. `rest` is the record after
 * its fixed part, and need not be aligned. */
static gboolean
check_window (const WindowRecord *record, const guint8 *rest)
{
  guint64 n_texts = (guint64) padded (record->n_name) + padded (record->n_tenant);
  guint64 n_rest = record->head.n_bytes - sizeof *record;

  return record->n_name > 0 && is_lsn (record->last_lsn) && is_lsn (record->now.lsn)
         && is_lsn (record->earlier.lsn) && n_texts <= n_rest
         && record->n_pushes == (n_rest - n_texts) / sizeof (TpsRememberedPush)
         && (n_rest - n_texts) % sizeof (TpsRememberedPush) == 0 && is_text (rest, record->n_name)
         && is_text (rest + padded (record->n_name), record->n_tenant);
}

static gboolean
are_valid (const TpsPushClient *client)
{
  for (guint i = 0; i < client->n_pushes; i++)
    if (!is_lsn (client->pushes[i].lsn)
        || (i > 0 && client->pushes[i - 1].sequence >= client->pushes[i].sequence))
      return FALSE;
  return TRUE;
}

/* Adds the pushes of a record to an empty window. If there is no room for them, raises the floor
 * instead. FALSE: the pushes are not valid, or not in ascending order. */
static gboolean
add_pushes (TpsPushWindow *window, TpsPushClient *client, const guint8 *pushes, guint n)
{
  TpsRememberedPush push;

  if (tps_push_client_reserve (window, client, n))
    {
      memcpy (client->pushes, pushes, n * sizeof push);
      client->n_pushes = n;
      window->n_remembered += n;
      return are_valid (client);
    }
  for (guint i = 0; i < n; i++)
    {
      memcpy (&push, pushes + i * sizeof push, sizeof push);
      if (!is_lsn (push.lsn))
        return FALSE;
      tps_push_floor_raise (&client->floor, push.sequence, push.lsn);
    }
  return TRUE;
}

/* Adds the window of a record, even if the client does not fit its share. If windows of other
 * clients must be given up for it, they become floors. FALSE: the record is damaged, the client is
 * known already, or `error` is set. */
static gboolean
add_window (TpsPushWindow *window, const WindowRecord *record, const guint8 *rest, GError **error)
{
  g_autofree gchar *name = g_strndup ((const gchar *) rest, record->n_name);
  const guint8 *tenant = rest + padded (record->n_name);
  TpsHeldFloor held = { floor_of (&record->now, &record->earlier),
                        find_share (window, tenant, record->n_tenant),
                        tps_push_floors_get_passed_side (window->floors) };
  TpsPushClient *client;

  if (g_hash_table_contains (window->clients, name)
      || tps_push_floors_find (window->floors, name, tps_push_window_now (window)) != NULL)
    return FALSE;
  client = tps_push_window_add_client (window, name, &held, FALSE, error);
  if (client == NULL)
    return FALSE;
  client->heard_ns = to_heard_ns (window, record->idle_ns);
  client->last_lsn = record->last_lsn;
  return add_pushes (window, client, tenant + padded (record->n_tenant), (guint) record->n_pushes);
}

static gboolean
add_floor (TpsPushWindow *window, const FloorRecord *record, const guint8 *tenant, GError **error)
{
  gint64 now_ns = tps_push_window_now (window);
  TpsExportedFloor floor = { .floor = floor_of (&record->now, &record->earlier),
                             .share = find_share (window, tenant, record->n_tenant),
                             .idle_ns = now_ns - to_heard_ns (window, record->idle_ns) };

  memcpy (floor.name, record->name, sizeof floor.name);
  return tps_push_floors_import (window->floors, now_ns, &floor, error);
}

/* Reads one whole record. The lock is held. FALSE: the bytes are not a record, or `error` is
 * set. */
static gboolean
read_record (TpsPushWindow *window, const Head *head, const guint8 *bytes, GError **error)
{
  WindowRecord record;
  FloorRecord floor;

  if (head->kind == FLOOR_RECORD && head->n_bytes >= sizeof floor)
    {
      memcpy (&floor, bytes, sizeof floor);
      return is_lsn (floor.now.lsn) && is_lsn (floor.earlier.lsn) && floor.n_tenant <= head->n_bytes
             && head->n_bytes == sizeof floor + padded (floor.n_tenant)
             && is_text (bytes + sizeof floor, floor.n_tenant)
             && add_floor (window, &floor, bytes + sizeof floor, error);
    }
  if (head->kind != WINDOW_RECORD || head->n_bytes <= sizeof record)
    return FALSE;
  memcpy (&record, bytes, sizeof record);
  return check_window (&record, bytes + sizeof record)
         && add_window (window, &record, bytes + sizeof record, error);
}

gboolean
tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes, gsize *n_used,
                      GError **error)
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
      ok = head.n_bytes >= sizeof head && read_record (window, &head, records + *n_used, error);
      if (ok)
        *n_used += head.n_bytes;
    }
  tps_mutex_unlock (&window->lock);
  return ok;
}

static gint
compare_heard (gconstpointer a, gconstpointer b, gpointer unused)
{
  const TpsPushClient *left = a;
  const TpsPushClient *right = b;

  return (left->heard_ns > right->heard_ns) - (left->heard_ns < right->heard_ns);
}

void
tps_push_export_end_read (TpsPushWindow *window)
{
  GHashTableIter shares;
  gpointer share;

  tps_mutex_lock (&window->lock);
  tps_push_floors_end_import (window->floors);
  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &share))
    g_queue_sort (&((TpsPushShare *) share)->recent, compare_heard, NULL);
  tps_mutex_unlock (&window->lock);
}
