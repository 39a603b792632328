/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A disk that fails, waits or terminates the process according to a plan. */

#pragma once

#include "runtime/base/fault.h"
#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

/* Makes a disk that passes calls on to `inner`, with the faults of `plan`. Takes ownership of
 * `inner`; `plan` is borrowed. The caller owns the disk. */
TpsDisk *tps_faulty_disk_new (TpsDisk *inner, TpsFaultPlan *plan);

G_END_DECLS
