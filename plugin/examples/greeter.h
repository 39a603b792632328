/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include <thriftps/plugin.h>

/* Returns a processor that Thrift's compiler has generated from greeter.thrift. Owned by the
 * caller. */
ThriftProcessor *greeter_processor_new (void);

/* The generated types. */
extern const TpsGetType greeter_get_types[];
extern const guint greeter_n_get_types;
