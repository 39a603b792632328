/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A host's own processor as a TpsService (plugin/service/call.h), the reverse of
 * plugin/host/processor.h.
 *
 * A call is received and checked as a whole before the processor reads it from a TpsHostProtocol,
 * on a worker. The bytes and objects that generated code creates from the call are charged to the
 * budget of the call's message until the handler has returned. The reply is charged until it has
 * been sent. The processor is hardened (plugin/host/harden.h).
 *
 * Failures outside the processor's contract are answered with TApplicationException: PROTOCOL_ERROR
 * if the arguments do not have the types of the contract, otherwise INTERNAL_ERROR with a message
 * that begins with the name of a TpsErrorCode, such as "RESOURCE_EXHAUSTED: ". */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/service/call.h"

typedef struct TpsHostService TpsHostService;

/* Creates a service, which the caller owns. Copies `name` and takes a reference to `processor`,
 * whose process() must be callable on any thread. */
TpsHostService *tps_host_service_new (const gchar *name, ThriftProcessor *processor);
void tps_host_service_free (TpsHostService *service);

/* Returns the description of the service, which borrows from `service`. */
TpsService tps_host_service_get (TpsHostService *service);
