/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ParameterServer service: average_gradient and reset_state. The methods that train a model are unknown here. */

#pragma once

#include "plugin/service/call.h"
#include "runtime/averaging/parameter_server.h"

G_BEGIN_DECLS

/* `server` is borrowed and outlives whoever serves it. */
TpsService tps_parameter_server_service (TpsParameterServer *server);

G_END_DECLS
