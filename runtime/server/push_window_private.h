/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structures of a push window. Internal to push_window.c and push_export.c. */

#pragma once

#include "runtime/base/slab.h"
#include "runtime/base/sync.h"
#include "runtime/server/push_floor.h"
#include "runtime/server/push_running.h"
#include "runtime/server/push_window.h"

G_BEGIN_DECLS

/* A push that was applied. Millions of these may be remembered, so fields that only running pushes
 * need are in TpsRunningPush. */
typedef struct
{
  gint64 sequence;
  gint64 answer;
  gint64 lsn;
  TpsPushDigest digest;
} TpsRememberedPush;

#define TPS_PUSH_FEW 8         /* remembered pushes in the struct of a client */
#define TPS_PUSH_SHORT_NAME 40 /* bytes, including the terminator */

/* A client with a window, in a slab. Most clients need no memory outside this struct, because their
 * names are short and they have few pushes. */
typedef struct
{
  gchar *name; /* `short_name`, or allocated */
  TpsPushShare *share;
  GList link;        /* in share->recent, if no push is running */
  GList export_link; /* in sides[side] */
  TpsExportSide side;
  TpsRememberedPush *pushes; /* [n_pushes], by ascending sequence */
  guint n_pushes, capacity;  /* of `pushes`, which is `few` or allocated */
  TpsRunningPushes running;
  TpsPushFloor floor; /* covers the forgotten pushes */
  gint64 last_lsn;    /* the highest LSN of all applied pushes */
  gint64 heard_ns;    /* the time of the last request */
  gsize n_bytes;      /* the charge; TPS_PUSH_FLOOR_BYTES of it are for a later floor */
  gchar short_name[TPS_PUSH_SHORT_NAME];
  TpsRememberedPush few[TPS_PUSH_FEW];
} TpsPushClient;

struct TpsPushWindow
{
  TpsPushWindowOptions options;
  TpsMutex lock;       /* guards everything below; must not be held during callbacks */
  GHashTable *clients; /* by name */
  GHashTable *shares;  /* of TpsPushShare, by tenant; "" = no tenant */
  GQueue sides[2];     /* of TpsPushClient */
  TpsSlab records;     /* of TpsPushClient */
  TpsPushFloors *floors;
  gsize n_remembered;
  gint64 ahead_ns;    /* of the clock in the options: the time that has passed in the replay */
  gint64 replayed_ms; /* the time of the newest command of the replay; 0 = none */
};

/* Returns the time by the clock of the window. The lock must be held. */
gint64 tps_push_window_now (const TpsPushWindow *window);

/* Returns the share of a tenant; NULL = of callers without a tenant. The lock must be held. */
TpsPushShare *tps_push_window_find_share (TpsPushWindow *window, const gchar *tenant);

/* Adds a client that has no window and is a member of `held->share`, with the floor of `held` and
 * no pushes. `is_known`: `floors` has a floor of the client, which is removed. The lock must be
 * held. Errors: RESOURCE_EXHAUSTED. */
TpsPushClient *tps_push_window_add_client (TpsPushWindow *window, const gchar *name,
                                           const TpsHeldFloor *held, gboolean is_known,
                                           GError **error);

/* Makes room for `n` pushes of the client in total. FALSE: there is no room. The lock must be
 * held. */
gboolean tps_push_client_reserve (TpsPushWindow *window, TpsPushClient *client, guint n);

G_END_DECLS
