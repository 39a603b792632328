/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Durability service over a data directory. */

#pragma once

#include "plugin/service/call.h"
#include "runtime/server/durable/durable.h"

/* Returns the service for a dispatcher. `durable` is borrowed and must outlive the server. */
TpsService tps_durability_service (TpsDurable *durable);
