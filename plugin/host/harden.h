/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A host's own processor behind the checks that ours has.
 *
 *   processor = tps_harden_processor (THRIFT_PROCESSOR (multiplexed), NULL);
 *
 * Every call is received and checked as a whole before the host's processor hears of it, through
 * whatever transport and protocol it came, and the processor reads it from a TpsHostProtocol. A
 * call that is malformed closes the connection; bytes that the library's own transport or protocol
 * cannot survive (Debian's 0.17: a zero-length frame, a field split over two frames) need
 * TpsHostTransport and TpsHostProtocol as well.
 *
 * What it saves the host from, besides what library.h and protocol.h repair:
 *
 * - A message named like a service, without a method, and an empty name or ":", crash
 *   ThriftMultiplexedProcessor; with two colons the processor is called with an error set; an
 *   unknown service is answered under half its name (library 0.17 to 0.24). Here they go to the
 *   default service, or are answered with UNKNOWN_METHOD under all of their name.
 * - A message whose beginning could not be read is looked at all the same, and so is its error,
 *   which may be unset: a zero-length frame is a crash (library up to 0.24).
 * - The arguments of an unknown method are skipped to any depth (library up to 0.23).
 * - A oneway handler that fails leaves half a message in front of the next reply, and an unknown
 *   oneway method is answered (generators 0.17 to 0.24 and later). Here a oneway call has nowhere
 *   to write to.
 * - A handler that sets both an exception and an error, or succeeds with an error set, poisons its
 *   connection (the same): the error is cleared.
 * - A caller that passes no GError is a crash (the same): one is always passed.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/host/library.h"
#include "plugin/host/stream.h"

G_BEGIN_DECLS

#define TPS_TYPE_HARDENED_PROCESSOR (tps_hardened_processor_get_type ())

GType tps_hardened_processor_get_type (void);

/* Takes a reference of `processor`: a generated one, a ThriftMultiplexedProcessor with all its
 * services registered, or any other. Repairs its class, those of its services, and the library
 * (library.h). Of `options` (NULL = defaults) only the limits of messages and the pool apply, and
 * only to messages that come through the library's own transports. Thread: one, before the server
 * starts; process() any that the processor inside allows. */
ThriftProcessor *tps_harden_processor (ThriftProcessor *processor, const TpsHostOptions *options);

G_END_DECLS
