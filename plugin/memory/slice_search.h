/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Finds a SharedSlice in an answer whose type nobody knows, or looks at: one that came too late, or was not asked for. */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

/* The first struct with exactly the i64 fields 1, 2 and 3, which is what a SharedSlice is and nothing else of the contract.
 * FALSE: there is none. Thread: any. */
gboolean tps_slice_search (const TpsMessage *message, TpsSharedSlice *slice);

G_END_DECLS
