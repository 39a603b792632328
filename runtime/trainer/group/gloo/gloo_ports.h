/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The addresses that Gloo listens on. C++; internal to this folder. */

#pragma once

#include <memory>

#include <gloo/transport/device.h>

#include "runtime/trainer/ports/process_group.h"

namespace tps {

/* Creates a device that listens on the options' host, with one port for each other rank until that
 * rank has connected. The ports are free ports in [first_port, last_port], or any free ports if
 * first_port is 0. With a range, creating the pairs of a context throws Failure if no port is
 * free. */
std::shared_ptr<gloo::transport::Device> make_gloo_device (const TpsProcessGroupOptions *options);

} /* namespace tps */
