/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Floors. When the window of a client is dropped, a floor takes its place. It has a hash of the
 * client's name, the highest sequence that was applied, and the LSN of its last command. Pushes up
 * to the floor may have been applied, so they are STALE.
 *
 * A floor is forgotten after its client has been silent for the idle time, and not earlier: a full
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

/* A client may restart its sequence on an object that was created later. `now` then has its pushes
 * to the new object, and `earlier` the pushes before that. */
typedef struct
{
  TpsPushStair now;
  TpsPushStair earlier;
} TpsPushFloor;

static inline gboolean
tps_push_floor_is_set (const TpsPushFloor *floor)
{
  return floor->now.is_set || floor->earlier.is_set;
}

/* A push has been applied. */
void tps_push_floor_raise (TpsPushFloor *floor, gint64 sequence, gint64 lsn);

/* The client restarts its sequence on a new object. */
void tps_push_floor_begin_anew (TpsPushFloor *floor);

/* Returns the stair that shows that a push of `sequence` to an object of this incarnation may have
 * been applied; NULL = the push has not been applied. */
const TpsPushStair *tps_push_floor_find_above (const TpsPushFloor *floor, gint64 sequence,
                                               gint64 incarnation);

/* The sides of an export. An export goes through clients and floors, which change meanwhile, so
 * each of them is on one of two sides. When an export begins, all are on the side to be visited,
 * and the other side is the passed one. New entries join the passed side. A window that becomes a
 * floor, or a floor that becomes a window, keeps its side. */
typedef guint8 TpsExportSide;

/* `budget` is borrowed; its limit also bounds the number of floors. */
TpsPushFloors *tps_push_floors_new (guint max_floors, gint64 idle_ns, TpsBudget *budget);
void tps_push_floors_free (TpsPushFloors *floors);

/* Forgets floors whose idle time has passed. TRUE: there is room for another one. */
gboolean tps_push_floors_has_room (TpsPushFloors *floors, gint64 now_ns);

/* Adds the floor of a client that has none. Its charge of TPS_PUSH_FLOOR_BYTES moves here from
 * `payer`, which the caller has charged, so a full budget never refuses a floor. FALSE: there is no
 * room, and nothing has moved. */
gboolean tps_push_floors_add (TpsPushFloors *floors, const gchar *client, const TpsPushFloor *floor,
                              TpsExportSide side, TpsBudget *payer, gint64 now_ns);

/* Returns the floor of a client, borrowed until the next call; NULL if the client has none. The
 * client counts as used at `now_ns`. */
const TpsPushFloor *tps_push_floors_find (TpsPushFloors *floors, const gchar *client,
                                          gint64 now_ns);
void tps_push_floors_remove (TpsPushFloors *floors, const gchar *client);

/* The number of floors. */
guint tps_push_floors_get_n (const TpsPushFloors *floors);

/* ---- exports --------------------------------------------------------------------------------- */

/* The side of entries that the current export has visited; new entries join it. */
TpsExportSide tps_push_floors_get_passed_side (const TpsPushFloors *floors);
/* `floor` is from tps_push_floors_find(). */
TpsExportSide tps_push_floors_get_side (const TpsPushFloor *floor);

/* Begins an export: all floors, and all windows, which use the same sides, are to be visited. */
void tps_push_floors_begin_export (TpsPushFloors *floors);

/* A floor with the hash of its client's name and the time since the client was last heard of. */
typedef struct
{
  guint8 name[16];
  TpsPushFloor floor;
  gint64 idle_ns;
} TpsExportedFloor;

/* FALSE: all have been visited. */
gboolean tps_push_floors_export_next (TpsPushFloors *floors, gint64 now_ns,
                                      TpsExportedFloor *floor);

/* Adds a floor from an export as the most recently used one. FALSE: there is no room. */
gboolean tps_push_floors_import (TpsPushFloors *floors, gint64 now_ns,
                                 const TpsExportedFloor *floor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushFloors, tps_push_floors_free)

G_END_DECLS
