/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Floors. When the window of a client is dropped, a floor takes its place. A floor has a hash of
 * the client's name, the highest sequence that was applied, and the LSN of the client's last
 * command. Pushes up to the floor may have been applied, so they are STALE.
 *
 * A floor is forgotten when its client has been silent for the idle time, and not earlier: a full
 * table refuses new floors.
 *
 * Thread: one at a time. The caller provides the clock.
 */

#pragma once

#include "runtime/base/budget.h"

G_BEGIN_DECLS

/* The charge for a floor and its place in the table. */
#define TPS_PUSH_FLOOR_BYTES 192

typedef struct TpsPushFloors TpsPushFloors;

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

/* Makes an empty table of at most `max_floors` floors, which are forgotten after `idle_ns`.
 * `budget` is borrowed; its limit also bounds the number of floors. */
TpsPushFloors *tps_push_floors_new (guint max_floors, gint64 idle_ns, TpsBudget *budget);
void tps_push_floors_free (TpsPushFloors *floors);

/* Forgets floors whose idle time has passed. Returns TRUE if there is room for one more floor. */
gboolean tps_push_floors_has_room (TpsPushFloors *floors, gint64 now_ns);

/* Adds the floor of a client that has none. Its charge of TPS_PUSH_FLOOR_BYTES moves here from
 * `payer`, which the caller has charged, so a full budget never refuses a floor. FALSE: there is no
 * room, and nothing has moved. */
gboolean tps_push_floors_add (TpsPushFloors *floors, const gchar *client, const TpsPushFloor *floor,
                              TpsExportSide side, TpsBudget *payer, gint64 now_ns);

/* Returns the floor of a client, borrowed until the next call; NULL if the client has none. Its
 * idle time begins anew at `now_ns`. */
const TpsPushFloor *tps_push_floors_find (TpsPushFloors *floors, const gchar *client,
                                          gint64 now_ns);
/* Forgets the floor of a client, if it has one. */
void tps_push_floors_remove (TpsPushFloors *floors, const gchar *client);

/* Returns the number of floors. */
guint tps_push_floors_get_n (const TpsPushFloors *floors);

/* ---- exports --------------------------------------------------------------------------------- */

/* Returns the passed side: that of entries that the current export has visited, and of new
 * entries. */
TpsExportSide tps_push_floors_get_passed_side (const TpsPushFloors *floors);
/* Returns the side of a floor, which must be a result of tps_push_floors_find(). */
TpsExportSide tps_push_floors_get_side (const TpsPushFloor *floor);

/* Begins an export of all floors and of all windows, which use the same sides. The previous export
 * must have visited all of them. */
void tps_push_floors_begin_export (TpsPushFloors *floors);

/* A floor with the hash of its client's name and the time since the client's last request. */
typedef struct
{
  guint8 name[16];
  TpsPushFloor floor;
  gint64 idle_ns;
} TpsExportedFloor;

/* Fills in the next floor of the export. FALSE: all floors have been visited. */
gboolean tps_push_floors_export_next (TpsPushFloors *floors, gint64 now_ns,
                                      TpsExportedFloor *floor);

/* Adds a floor from an export as the most recently used one; replaces a floor of the same client.
 * FALSE: there is no room. */
gboolean tps_push_floors_import (TpsPushFloors *floors, gint64 now_ns,
                                 const TpsExportedFloor *floor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushFloors, tps_push_floors_free)

G_END_DECLS
