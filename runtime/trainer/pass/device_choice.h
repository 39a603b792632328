/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which device a role computes on. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* `name`: "" or "cpu" is the CPU; "cuda" the CUDA device of number `local_rank` modulo their count,
 * so that the roles of a machine share what it has evenly; else a device's name ("cuda:1").
 * `local_rank`: of this process among the roles of its machine. Drivers are looked for only where a
 * device of theirs is named. Borrowed for ever. NULL with NOT_FOUND (no such device; the message
 * lists those there are) or UNAVAILABLE ("cuda", and there is none: the message says why). */
TpsDevice *tps_device_choose (const gchar *name, guint local_rank, GError **error);

G_END_DECLS
