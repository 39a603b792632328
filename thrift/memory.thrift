// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory that both ends of one connection map, so that tensors need not travel through the socket:
// Tensor.shared instead of Tensor.data. Optional: a peer that never asks for a segment gets and
// sends all tensors inline, and both sides may send any tensor inline at any time. Offered where
// NodeInfo.max_shared_bytes is there.
//
// Getting at a segment. open_segment works over Unix sockets between processes of one user. The
// answer comes with one file descriptor (SCM_RIGHTS), sent with the first byte of the answer's
// frame. Descriptors come in the order of the answers: the n-th descriptor that a connection
// receives belongs to the n-th Segment answered on it. The file is a memfd of exactly `bytes`
// bytes, sealed against growing, shrinking and further seals. A segment for ANSWERS can be mapped
// for reading only.
//
// Who owns what.
//  * REQUESTS: the client writes tensors into its segment and names them in the arguments of a
//    call. From sending the call until its answer (whatever answer) the slices are the server's:
//    the client must not write there. The answer gives them back. The slices of a call that was
//    never answered stay the server's until the segment is closed.
//  * ANSWERS: the server writes tensors of one answer into one free segment. With the answer the
//    segment is the client's, who reads it in place and gives it back with release_segments.
// A server never trusts the contents: what steers access (integer tensors: ids, offsets) it copies
// first and checks then. A client that changes slices it has given away changes the values that it
// has sent, and nothing else.
//
// Kinds. MEMFD is as above. CUDA_IPC is memory of a CUDA device, the server's, in which large dense
// gradients of ParameterServer.average_gradient, and averages, may lie; every other tensor there is
// refused. Offered where NodeInfo.shared_device is there. No descriptor comes with the answer but
// Segment.handle, which whoever knows may open: it is for this client alone, and never stands in a
// Tensor. The rules are the same, with these differences:
//  * What is named must be there: its writer has waited for the copy before the message leaves. No
//    event travels, since one of a process that was killed is never reached.
//  * The client lets go of a segment before it closes it, and of all when the connection goes:
//    memory that its owner has freed is nobody's. The server frees it then.
//
// offset: a multiple of 64; length: exactly the bytes of the tensor. Segments belong to the
// connection they were opened on, and go when it goes, whatever way it goes.

include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.memory
namespace go thriftps.memory
namespace js thriftps.memory
namespace rb ThriftPS
namespace perl ThriftPS.Memory
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

enum SegmentKind {
  MEMFD = 1,    // host memory
  CUDA_IPC = 2  // memory of a CUDA device
}

enum SegmentUse {
  REQUESTS = 1, // the client writes, the server reads
  ANSWERS = 2   // the server writes, the client reads
}

struct Segment {
  1: required i64 id   // what SharedSlice.segment names on this connection
  2: required i64 bytes
  3: optional binary handle // CUDA_IPC: cudaIpcMemHandle_t, 64 bytes
}

service Memory {
  // `bytes` is rounded up to pages, of a device's memory to 2 MiB. RESOURCE_EXHAUSTED beyond what a
  // connection, or the server, may have, of each kind by itself; PERMISSION_DENIED for another
  // user; UNAVAILABLE where nothing is offered (not a Unix socket, switched off), or not of the
  // kind.
  Segment open_segment(1: SegmentKind kind, 2: SegmentUse segment_use, 3: i64 bytes) throws (1: node.ServiceError failure)

  // Gives segments for ANSWERS back to the server. NOT_FOUND names the first that is not the
  // client's; the others are given back.
  void release_segments(1: list<i64> segments) throws (1: node.ServiceError failure)

  // Ends segments of either use. Calls that still use them end undisturbed. NOT_FOUND as above.
  void close_segments(1: list<i64> segments) throws (1: node.ServiceError failure)
}
