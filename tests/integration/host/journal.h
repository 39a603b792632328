/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The host's own service, written with plain Thrift C GLib: the handler of a generated
 * processor. */

#pragma once

#include <thriftps/plugin.h>

G_BEGIN_DECLS

/* Returns the generated processor with its handler. The caller owns it. */
ThriftProcessor *journal_processor_new (void);

/* The get_type functions of the service's types, for tps_register_types(). */
extern const TpsGetType journal_get_types[];
extern const guint journal_n_get_types;

G_END_DECLS
