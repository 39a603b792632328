/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sends a lookup plan; used by lookups, and by pushes that must find maxima first. */

#pragma once

#include "plugin/client/tables/lookup_plan.h"
#include "plugin/client/tables/servers.h"

G_BEGIN_DECLS

/* Called once, on an I/O thread, when all requests have ended. `error` is borrowed; NULL = all
 * replies are in the plan. */
typedef void (*TpsPlanAnswered) (gpointer user_data, const GError *error);

/* Sends the requests of `plan`, which is borrowed until `answered`. `answered` is never called
 * before this returns. Thread: any. */
void tps_lookup_plan_send (TpsLookupPlan *plan, TpsServers *servers, gint64 deadline_ns,
                           TpsPlanAnswered answered, gpointer user_data);

G_END_DECLS
