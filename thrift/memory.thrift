// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Shared memory: both ends of a connection map a segment, so that tensors need not pass through the
// socket. A message then has Tensor.shared instead of Tensor.data. Shared memory is optional:
// either side may send any tensor inline at any time, and a client without segments receives all
// tensors inline. A server offers shared memory if NodeInfo.max_shared_bytes is set.
//
// Opening a segment. open_segment works over Unix sockets, between processes of one user. One file
// descriptor comes with the reply (SCM_RIGHTS); it is sent with the first byte of the reply's
// frame. Descriptors arrive in the order of the replies: the n-th descriptor that a connection
// receives belongs to the n-th Segment that was returned on it. The file is a memfd of exactly
// `bytes` bytes, sealed against growing, shrinking and further seals. A segment for ANSWERS can be
// mapped for reading only.
//
// Ownership.
//  * REQUESTS: the client writes tensors into its segment and refers to their slices in the
//    arguments of a call. From the time it sends the call until the reply, whether a success or a
//    failure, the server owns the slices, and the client must not write to them. The reply returns
//    them to the client. If a call never gets a reply, the server owns its slices until the segment
//    is closed.
//  * ANSWERS: the server writes the tensors of one reply into one free segment. The client owns the
//    segment from the reply on. It reads the tensors in place, and must then return the segment
//    with release_segments.
// The server does not trust the contents of a segment. It copies integer tensors (ids and offsets),
// because they control memory accesses, and checks the copy. A client that modifies a slice while
// the server owns it can change only the values that it sent itself.
//
// Kinds. The text above describes MEMFD. CUDA_IPC is memory of a CUDA device that the server
// allocates. It may hold large dense gradients of ParameterServer.average_gradient, and averages;
// the server refuses any other tensor in it. A segment of open_lookup_segment may also hold results
// of EmbeddingTable.lookup_bags and lookup_rows. A server offers open_segment with CUDA_IPC if
// NodeInfo.shared_device is set, and open_lookup_segment if NodeInfo.lookup_device is set. A server
// whose averages are in host memory and whose tables are on a device offers only
// open_lookup_segment. The reply carries Segment.handle instead of a file descriptor. Any process
// of the host that knows the handle can open the memory, so a client must keep it secret; a handle
// never appears in a Tensor. The rules are the same, with these differences:
//  * The data must be complete when the message leaves: the writer must first wait for its copy.
//    The protocol passes no CUDA events, because an event of a killed process would never complete.
//  * The client must unmap a segment before it closes it, and must unmap all segments when the
//    connection closes. The server frees the memory when the segment or the connection closes, and
//    CUDA leaves accesses to freed memory undefined.
//
// A slice's offset must be a multiple of 64, and its length must be exactly the size of the tensor
// in bytes. Segments belong to the connection that opened them. The server closes them when the
// connection ends, for any reason.

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
  /** host memory */
  MEMFD = 1,
  /** memory of a CUDA device */
  CUDA_IPC = 2
}

enum SegmentUse {
  /** the client writes, the server reads */
  REQUESTS = 1,
  /** the server writes, the client reads */
  ANSWERS = 2,
  /**
   * As ANSWERS, for a client that receives the same tensors as other clients (averages). The server
   * may return a segment that other connections of the same user map too. Such a segment holds a
   * tensor that is sent to several clients. All of them read it in place, and each must return the
   * segment. The server writes to it again when all have returned it. The server uses several such
   * segments in turn, so a client should open one more after each reply whose tensor came inline,
   * up to its limit. A server that does not know this value refuses it with INVALID_ARGUMENT.
   */
  COMMON_ANSWERS = 3
}

struct Segment {
  /** the value of SharedSlice.segment on this connection */
  1: required i64 id (min = "1")
  2: required i64 bytes (min = "1")
  /** CUDA_IPC: cudaIpcMemHandle_t, 64 bytes */
  3: optional binary handle (size = "64")
}

service Memory {
  /**
   * Opens a segment of at least `bytes` bytes: the size is rounded up to whole pages, or to 2 MiB
   * of device memory.
   *
   * RESOURCE_EXHAUSTED: the limit of this connection or of the server is reached; each kind has
   * limits of its own. PERMISSION_DENIED: the processes have different users. UNAVAILABLE: the
   * server offers no shared memory (the socket is not a Unix socket, or the server has switched
   * shared memory off), or it does not offer this kind.
   */
  Segment open_segment(1: SegmentKind kind (enum_type = "SegmentKind"),
                       2: SegmentUse segment_use (enum_type = "SegmentUse"),
                       3: i64 bytes (min = "1"))
      throws (1: node.ServiceError failure) (right = "any", lane = "worker", result = "segment")

  /**
   * Returns segments for ANSWERS to the server. NOT_FOUND: the client does not own one of the
   * segments. The message names the first such segment, and all others are released.
   */
  void release_segments(1: list<i64> segments)
      throws (1: node.ServiceError failure) (right = "any")

  /**
   * Closes segments of any use. Pending calls that use them complete normally. NOT_FOUND: as in
   * release_segments.
   */
  void close_segments(1: list<i64> segments)
      throws (1: node.ServiceError failure) (right = "any", lane = "worker")

  /**
   * Opens a segment of kind CUDA_IPC for ANSWERS, as open_segment does. The server may also place
   * results of lookup_bags and lookup_rows in this segment, if the table is on the device of
   * NodeInfo.lookup_device. Without such a segment, results of lookups are never in memory of a
   * device. With such a segment, a result may still be in host memory.
   */
  Segment open_lookup_segment(1: i64 bytes (min = "1"))
      throws (1: node.ServiceError failure) (right = "any", lane = "worker", result = "segment")
}
