/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Session service (thrift/session.thrift): the identity and the context that a client sets for
 * its connection. The service has no state of its own; the carrier of a call keeps the state of the
 * connection. */

#pragma once

#include "plugin/service/call.h"

TpsService tps_session_service (void);
