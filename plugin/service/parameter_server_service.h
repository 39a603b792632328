/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The ParameterServer service: gradients that are averaged, and a model that is trained. */

#pragma once

#include "plugin/service/call.h"
#include "runtime/server/averaging/parameter_server.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

/* What the service is of; both borrowed. */
typedef struct
{
  TpsParameterServer *averaging;
  TpsModelServer *updating;
} TpsParameterServers;

/* `servers` is borrowed and, as what it names, outlives whoever serves it. */
TpsService tps_parameter_server_service (const TpsParameterServers *servers);

G_END_DECLS
