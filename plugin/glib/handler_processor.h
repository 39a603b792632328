/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Generated processors that see what generated code does not: subclasses of them whose process()
 * looks at the whole call first. A call that lacks an argument, or has one of another type, would
 * reach the handler with 0 in its place; the plugin answers it instead, as it does without
 * generated code, with an error that names the argument. Bytes are checked before generated code
 * reads them. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/glib/handler_call.h"

G_BEGIN_DECLS

/* The subclass of the service's generated processor. Thread: one. */
GType tps_handler_processor_get_type (const TpsHandlerService *service);

G_END_DECLS
