// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The interface of a program that existed before ThriftPS. Its enums have the same names as ours on
// purpose.

namespace c_glib FleetLog

enum DType {
  SMALL = 1,
  LARGE = 2
}

enum ErrorCode {
  FULL = 1,
  INTERNAL = 12
}

struct Entry {
  1: required string name
  2: optional binary blob
  3: optional list<double> samples
  4: DType dtype
}

exception Rejected {
  1: ErrorCode code
  2: string why
}

service Health {
  string ping(1: string text)
}

service Journal extends Health {
  // rejected if the name is "reject"
  Entry echo(1: Entry entry) throws (1: Rejected rejected)
  i32 count(1: list<Entry> entries, 2: map<string, Entry> index) // of all entries
  binary blob(1: binary data)                                    // the same bytes
  oneway void note(1: string text)                               // fails if the text is "fail"
}
