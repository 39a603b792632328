/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Subclasses of generated processors whose process() checks the whole call first. If a call lacks
 * an argument, or has one of another type, generated code would pass 0 to the handler. The plugin
 * refuses such a call instead, as it does without generated code, with an error that names the
 * argument. The bytes are checked before generated code reads them. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/glib/handler_call.h"

G_BEGIN_DECLS

/* Returns the subclass of the service's generated processor. Thread: one. */
GType tps_handler_processor_get_type (const TpsHandlerService *service);

G_END_DECLS
