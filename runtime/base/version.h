/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The version of ThriftPS, "major.minor.patch". */

#pragma once

#define TPS_VERSION "0.1.0"
