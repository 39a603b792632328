// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The service of a program that existed before ThriftPS: greeter.c implements it.

namespace c_glib Hello

service Greeter {
  string greet (1: string name)
}
