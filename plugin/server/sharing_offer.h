/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Decides whether a connection is offered shared memory. Inside plugin/server only. Thread: any. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_SHARING_OFFERED = 0,
  TPS_SHARING_SWITCHED_OFF = 1,
  TPS_SHARING_NOT_LOCAL = 2,
  TPS_SHARING_OTHER_USER = 3,
} TpsSharingOffer;

/* Decides about the connection of `fd`, a connected socket. `max_bytes` 0 = shared memory is
 * disabled. */
TpsSharingOffer tps_sharing_offer_find (gint fd, gsize max_bytes);

/* Sets `error` to the reason for a refusal: UNAVAILABLE or PERMISSION_DENIED. `offer` must not be
 * OFFERED. */
void tps_sharing_offer_refuse (TpsSharingOffer offer, GError **error);

G_END_DECLS
