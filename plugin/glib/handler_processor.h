/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Subclasses of generated processors whose process() checks the whole call before generated code
 * reads it. If a call lacks an argument, or has an argument of a different type, generated code
 * would pass 0 to the handler. The plugin refuses such a call instead, with an error that names the
 * argument, as it does without generated code. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/glib/handler_call.h"

/* Returns the subclass of the service's generated processor, and registers it at the first call.
 * Thread: one. */
GType tps_handler_processor_get_type (const TpsHandlerService *service);
