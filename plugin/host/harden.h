/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs a host's own processor behind the same checks as the services of this project.
 *
 *   processor = tps_harden_processor (THRIFT_PROCESSOR (multiplexed), NULL);
 *
 * Over any transport and protocol, every call is received and checked as a whole before the host's
 * processor is called. The processor reads the call from a TpsHostProtocol. A malformed call closes
 * the connection. Some bytes crash the library's own transport or protocol (Debian's 0.17: a
 * zero-length frame, a field split over two frames). Protection against them requires
 * TpsHostTransport and TpsHostProtocol.
 *
 * The hardened processor prevents these defects, in addition to those that library.h and protocol.h
 * repair:
 *
 *   - A message with the name of a service and no method, an empty name, or ":" crashes
 *     ThriftMultiplexedProcessor. If the name has two colons, the processor is called with an error
 *     set. The reply to a call of an unknown service has only half of the call's name (library 0.17
 *     to 0.24). Here such calls go to the default service, or the reply is UNKNOWN_METHOD, with the
 *     full name.
 *   - A message is processed even if its beginning could not be read, and the error of that read,
 *     which may be unset, is used: a zero-length frame causes a crash (library up to 0.24). Here
 *     the connection is closed.
 *   - The arguments of an unknown method are skipped to any depth (library up to 0.23). Here a call
 *     that is nested more deeply than TPS_MESSAGE_MAX_DEPTH closes its connection.
 *   - A oneway handler that fails leaves half a message before the next reply, and an unknown
 *     oneway method gets a reply (generators 0.17 to 0.24 and later). Here the output of a oneway
 *     call is dropped.
 *   - A handler that sets both an exception and an error, or that succeeds with an error set,
 *     breaks its connection (generators 0.17 to 0.24 and later). Here the error is cleared.
 *   - A caller that passes no GError causes a crash (generators 0.17 to 0.24 and later). Here the
 *     generated code always gets a GError.
 */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/host/library.h"
#include "plugin/host/stream.h"

G_BEGIN_DECLS

#define TPS_TYPE_HARDENED_PROCESSOR (tps_hardened_processor_get_type ())

/* Returns the GType of the processors that tps_harden_processor() creates. Thread: any. */
GType tps_hardened_processor_get_type (void);

G_END_DECLS
