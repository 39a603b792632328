/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Session service (thrift/session.thrift): what a client says about its connection. It has no
 * state of its own; the carrier of a call keeps what belongs to the connection. */

#pragma once

#include "plugin/service/call.h"

G_BEGIN_DECLS

TpsService tps_session_service (void);

G_END_DECLS
