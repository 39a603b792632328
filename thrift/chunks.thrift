// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Messages larger than a frame. The client sends a call that exceeds the frame limit of the server
// (NodeInfo.max_frame_bytes) in chunks, and the server then runs the call. A reply that does not
// fit into any frame (2^31 bytes and more) stays in the server, and the client fetches it in
// chunks. Clients whose messages fit into frames do not need this service.
//
// A large call. The client serializes the whole call message (binary protocol, without the frame's
// length prefix, method name "Service:method") and then makes these calls:
//   begin_transfer(name, bytes, count)    returns the number of chunks that the server has: 0, or
//                                         more if the transfer is resumed
//   put_chunk(chunk)                      for each chunk, in order; several may be in flight
//   run_transfer(name)                    runs the call, and returns the serialized reply message
//   end_transfer(name)                    ends the transfer; allowed at any time
// Thrift has no length for a binary of 2^31 bytes and more. Inside a transfer, such a binary has
// the length -1 (i32), followed by its length as an i64. The other encodings are unchanged.
//
// A transfer survives its connection. After a lost connection, begin_transfer with the same size
// and count on a new connection returns the position at which to continue. run_transfer runs the
// call once; a repeat returns the same reply. The server drops a transfer that has made no progress
// for 60 s: no missing chunk has arrived, and no chunk of its reply was fetched. If other transfers
// need the memory, the server also drops incomplete transfers that have made no progress for 5 s,
// and transfers of the tenant whose transfers hold the most memory. It does not drop a transfer
// whose call is running.
//
// A large reply. If the reply to a plain call exceeds a frame, the call fails with ServiceError
// RESOURCE_EXHAUSTED, and `transfer` is set. The server has run the call. The client can fetch the
// reply with get_chunk under this name, until end_transfer or until 60 s pass without progress.
// Each chunk states the total number of chunks. If the reply to a call in a transfer is large,
// run_transfer returns LargeAnswer.count > 0, and the client fetches the reply in the same way.

include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.chunks
namespace go thriftps.chunks
namespace js thriftps.chunks
namespace rb ThriftPS
namespace perl ThriftPS.Chunks
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

/**
 * Chunk `index` of a message in `count` chunks. All chunks have the same length, except that the
 * last chunk may be shorter.
 */
struct Chunk {
  1: required string transfer (text = "name")
  /** from 0 */
  2: required i32 index
  3: required i32 count
  /** CRC-32C of data (Castagnoli polynomial, as in iSCSI); its bits as a signed number. */
  4: required i32 crc32c
  5: required binary data
}

struct TransferState {
  /** the server has the chunks [0, received) */
  1: required i32 received
}

struct LargeAnswer {
  /** size of the serialized reply message */
  1: required i64 bytes
  /** number of chunks to fetch; 0 if `message` is set */
  2: required i32 count
  /** the whole message, if it is short */
  3: optional binary message
}

service Chunks {
  /**
   * Begins a transfer, or resumes it. ALREADY_EXISTS: the name is in use with another size or
   * count. RESOURCE_EXHAUSTED: the server has no room for the transfer; see retry_after_ms.
   */
  TransferState begin_transfer(1: string transfer (text = "name"), 2: i64 bytes, 3: i32 count)
      throws (1: node.ServiceError failure) (right = "any", result = "state")

  /**
   * Stores a chunk. If the server has the chunk already, it checks the CRC and accepts the chunk.
   * INVALID_ARGUMENT: the CRC is wrong (the client can send the chunk again), the length is wrong,
   * or an earlier chunk is missing. NOT_FOUND: the transfer does not exist or was dropped, and the
   * client can begin it again. RESOURCE_EXHAUSTED: there is no room now; see retry_after_ms.
   */
  void put_chunk(1: Chunk chunk)
      throws (1: node.ServiceError failure) (right = "any")

  /** Runs the call, and returns its reply. INVALID_ARGUMENT: chunks are missing. */
  LargeAnswer run_transfer(1: string transfer (text = "name"))
      throws (1: node.ServiceError failure) (right = "any", result = "answer")

  /**
   * Returns one chunk of the reply; the client may fetch a chunk more than once. INVALID_ARGUMENT:
   * there is no reply yet, or no such chunk. NOT_FOUND: as in put_chunk.
   */
  Chunk get_chunk(1: string transfer (text = "name"), 2: i32 index)
      throws (1: node.ServiceError failure) (right = "any", lane = "worker", result = "chunk")

  /** Ends the transfer and releases its memory. Succeeds if there is no such transfer. */
  void end_transfer(1: string transfer (text = "name"))
      throws (1: node.ServiceError failure) (right = "any")
}
