/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs a host's own processor behind the checks of our services.
 *
 *   processor = tps_harden_processor (THRIFT_PROCESSOR (multiplexed), NULL);
 *
 * Every call is received and checked as a whole before the host's processor sees it, over any
 * transport and protocol, and the processor reads it from a TpsHostProtocol. A malformed call
 * closes the connection. Bytes that crash the library's own transport or protocol (Debian's 0.17: a
 * zero-length frame, a field split over two frames) need TpsHostTransport and TpsHostProtocol as
 * well.
 *
 * It prevents these defects, in addition to those that library.h and protocol.h repair:
 *
 * - A message with the name of a service and no method, an empty name, or ":" crashes
 * ThriftMultiplexedProcessor. With two colons the processor is called with an error set. An unknown
 * service is answered under half its name (library 0.17 to 0.24). Here such calls go to the default
 * service, or are answered with UNKNOWN_METHOD under their full name. - A message is processed even
 * if its beginning could not be read, and its error, which may be unset, is used: a zero-length
 * frame is a crash (library up to 0.24). - The arguments of an unknown method are skipped to any
 * depth (library up to 0.23). - A oneway handler that fails leaves half a message before the next
 * reply, and an unknown oneway method is answered (generators 0.17 to 0.24 and later). Here a
 * oneway call has no place to write to. - A handler that sets both an exception and an error, or
 * succeeds with an error set, breaks its connection (generators 0.17 to 0.24 and later): here the
 * error is cleared. - A caller that passes no GError causes a crash (generators 0.17 to 0.24 and
 * later): here one is always passed.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/host/library.h"
#include "plugin/host/stream.h"

G_BEGIN_DECLS

#define TPS_TYPE_HARDENED_PROCESSOR (tps_hardened_processor_get_type ())

/* The GType of the processors that tps_harden_processor() returns. Thread: any. */
GType tps_hardened_processor_get_type (void);

/* Takes a reference of `processor`: a generated one, a ThriftMultiplexedProcessor with all its
 * services registered, or any other. Repairs its class, those of its services, and the library
 * (library.h). Only the limits of messages and the pool of `options` (NULL = defaults) apply, and
 * only to messages that come through the library's own transports. Thread: one, before the server
 * starts; process() may run on any thread that the inner processor allows. */
ThriftProcessor *tps_harden_processor (ThriftProcessor *processor, const TpsHostOptions *options);

G_END_DECLS
