/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

/* 1 in a build with the address sanitizer, otherwise 0. GCC and Clang announce it differently. */
#if defined(__SANITIZE_ADDRESS__)
#define TPS_HAS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TPS_HAS_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef TPS_HAS_ADDRESS_SANITIZER
#define TPS_HAS_ADDRESS_SANITIZER 0
#endif
