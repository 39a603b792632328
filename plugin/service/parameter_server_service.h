/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ParameterServer service: averaging of gradients, and updates of a model. */

#pragma once

#include "plugin/service/call.h"
#include "runtime/server/averaging/parameter_server.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

/* The objects of the service; both borrowed. */
typedef struct
{
  TpsParameterServer *averaging;
  TpsModelServer *updating;
} TpsParameterServers;

/* Returns the service. `servers` and both objects are borrowed, and must outlive the server. */
TpsService tps_parameter_server_service (const TpsParameterServers *servers);

G_END_DECLS
