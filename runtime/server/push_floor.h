/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Floors. When the window of a client is dropped, a floor takes its place. A floor has a hash of
 * the client's name, the highest sequence that was applied, and the LSN of the client's last
 * command. Pushes up to the floor may have been applied, so they are STALE.
 *
 * A floor is forgotten when its client has been silent for the idle time, and not earlier. The
 * table has no limit: the push window limits the number of clients of each tenant (push_window.h),
 * and charges TPS_PUSH_FLOOR_BYTES for a client before the client has a window. A floor keeps this
 * charge, so a window can always become a floor.
 *
 * Thread: one at a time. The caller provides the clock.
 */

#pragma once

#include "runtime/base/budget.h"

G_BEGIN_DECLS

/* The charge for a floor and its place in the table. */
#define TPS_PUSH_FLOOR_BYTES 192

typedef struct TpsPushFloors TpsPushFloors;

/* The share of one tenant in the memory of push ids. Owned by the push window. */
typedef struct
{
  gchar *tenant;   /* NULL: of callers without a tenant */
  guint n_clients; /* with a window or a floor */
  gsize n_bytes;   /* the charges of windows */
  GQueue recent;   /* of clients with a window and no running push, least recently used first */
} TpsPushShare;

/* A stair is one level of a floor: pushes up to `sequence` were applied by commands up to `lsn`. */
typedef struct
{
  gboolean is_set;
  gint64 sequence;
  gint64 lsn;
} TpsPushStair;

/* A client may restart its sequence on an object that was created later. `now` then covers its
 * pushes to the new object, and `earlier` all pushes before them. */
typedef struct
{
  TpsPushStair now;
  TpsPushStair earlier;
} TpsPushFloor;

/* Returns TRUE if a push has raised the floor. */
static inline gboolean
tps_push_floor_is_set (const TpsPushFloor *floor)
{
  return floor->now.is_set || floor->earlier.is_set;
}

/* Raises the floor to `sequence`, a push that command `lsn` has applied. */
void tps_push_floor_raise (TpsPushFloor *floor, gint64 sequence, gint64 lsn);

/* Moves `now` to `earlier`, because the client restarts its sequence on a new object. */
void tps_push_floor_begin_anew (TpsPushFloor *floor);

/* Returns a stair that covers a push of `sequence` to an object of this incarnation, so that the
 * push may have been applied; NULL = the push has not been applied. The stair is part of
 * `floor`. */
const TpsPushStair *tps_push_floor_find_above (const TpsPushFloor *floor, gint64 sequence,
                                               gint64 incarnation);

/* The sides of an export. Windows and floors change while an export visits them, so each of them is
 * on one of two sides. When an export begins, all are on the side to be visited, and the other side
 * is the passed side. New entries join the passed side. A window that becomes a floor, or a floor
 * that becomes a window, keeps its side. */
typedef guint8 TpsExportSide;

/* A floor in the table. */
typedef struct
{
  TpsPushFloor floor;
  TpsPushShare *share; /* borrowed */
  TpsExportSide side;
} TpsHeldFloor;

/* Makes an empty table of floors, which are forgotten after `idle_ns`. A forgotten floor leaves its
 * share, and releases its charge to `budget`, which is borrowed. */
TpsPushFloors *tps_push_floors_new (gint64 idle_ns, TpsBudget *budget);
void tps_push_floors_free (TpsPushFloors *floors);

/* Forgets floors whose idle time has passed. The floors are nearly in the order of this time: if a
 * floor was added after a floor with a longer way to go, it is forgotten with that one. */
void tps_push_floors_expire (TpsPushFloors *floors, gint64 now_ns);

/* Forgets the floors of `share` whose clients have been silent for `idle_ns`. */
void tps_push_floors_forget (TpsPushFloors *floors, const TpsPushShare *share, gint64 idle_ns,
                             gint64 now_ns);

/* Adds the floor of a client that has none, and whose last request came at `heard_ns`. The client
 * is a member of the share already, and its charge of TPS_PUSH_FLOOR_BYTES now belongs to the
 * floor. */
void tps_push_floors_add (TpsPushFloors *floors, const gchar *client, const TpsHeldFloor *held,
                          gint64 heard_ns);

/* Returns the floor of a client, borrowed until the next call; NULL if the client has none. Its
 * idle time begins anew at `now_ns`. */
const TpsHeldFloor *tps_push_floors_find (TpsPushFloors *floors, const gchar *client,
                                          gint64 now_ns);
/* Removes the floor of a client, which must have one. The client remains a member of the share, and
 * its charge belongs to the caller. */
void tps_push_floors_take (TpsPushFloors *floors, const gchar *client);

/* Returns the number of floors. */
guint tps_push_floors_get_n (const TpsPushFloors *floors);

/* ---- exports --------------------------------------------------------------------------------- */

/* Returns the passed side: that of entries that the current export has visited, and of new
 * entries. */
TpsExportSide tps_push_floors_get_passed_side (const TpsPushFloors *floors);

/* Begins an export of all floors and of all windows, which use the same sides. The previous export
 * must have visited all of them. */
void tps_push_floors_begin_export (TpsPushFloors *floors);

/* A floor with the hash of its client's name and the time since the client's last request. */
typedef struct
{
  guint8 name[16];
  TpsPushFloor floor;
  TpsPushShare *share;
  gint64 idle_ns;
} TpsExportedFloor;

/* Fills in the next floor of the export. FALSE: all floors have been visited. */
gboolean tps_push_floors_export_next (TpsPushFloors *floors, gint64 now_ns,
                                      TpsExportedFloor *floor);

/* Adds a floor from an export, which becomes a member of its share. FALSE: there is a floor of this
 * client already. Errors: RESOURCE_EXHAUSTED (the budget). */
gboolean tps_push_floors_import (TpsPushFloors *floors, gint64 now_ns,
                                 const TpsExportedFloor *floor, GError **error);

/* Must be called after the last import. Puts the floors in the order in which they expire, because
 * an export has a different order. */
void tps_push_floors_end_import (TpsPushFloors *floors);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushFloors, tps_push_floors_free)

G_END_DECLS
