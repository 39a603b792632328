// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Messages larger than a frame. A call whose message would pass the server's frame limit
// (NodeInfo.max_frame_bytes) is sent in chunks and run from there; an answer that no frame can hold
// (2^31 bytes and more) waits in the server and is fetched in chunks. Optional: only who sends or
// asks for more than a frame needs it.
//
// A large call. The client serializes the whole call message (binary protocol, without the frame's
// length prefix, method name "Service:method"), and then
//   begin_transfer(name, bytes, count)    -> how many chunks the server has: 0, or more where it is
//                                         resumed
//   put_chunk                             each of the chunks, in order; several may be on their way
//   run_transfer(name)                    runs the call; its answer is the serialized answer
//                                         message
//   end_transfer(name)                    forgets it, at any time
// Inside a transfer a binary of 2^31 bytes and more, which Thrift has no length for, has the length
// -1 (i32) and then its length as an i64. Everything else is as in any message. A transfer outlives
// its connection: after a lost one, begin_transfer with the same numbers on a new connection says
// where to go on. run_transfer runs the call once; asked again it answers the same again. A
// transfer that has not got further for 60 s (no chunk that was missing has come, none of its
// answer has been asked for) is forgotten; one that runs is not.
//
// A large answer. A plain call whose answer passes what a frame can hold is answered with
// ServiceError RESOURCE_EXHAUSTED with `transfer` set: the call has been done, and its answer waits
// under that name for get_chunk, until end_transfer or for 60 s; each chunk says how many there
// are. run_transfer answers the same way by LargeAnswer.count > 0.

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

// Chunk i of a message of `bytes` bytes in `count` chunks: all chunks have the length of the first
// one, but for the last.
struct Chunk {
  1: required string transfer
  2: required i32 index      // from 0
  3: required i32 count
  // of data (Castagnoli polynomial, as in iSCSI), the bits as a signed number
  4: required i32 crc32c
  5: required binary data
}

struct TransferState {
  1: required i32 received   // chunks [0, received) are there
}

struct LargeAnswer {
  1: required i64 bytes      // of the serialized answer message
  2: required i32 count      // chunks to fetch; 0 where `message` is there
  3: optional binary message // the whole message, where it is short
}

service Chunks {
  // ALREADY_EXISTS: the name is used for other numbers. RESOURCE_EXHAUSTED: no room for so much,
  // see retry_after_ms.
  TransferState begin_transfer(1: string transfer, 2: i64 bytes, 3: i32 count) throws (1: node.ServiceError failure)

  // A chunk that is there already is checked against its CRC and accepted. INVALID_ARGUMENT: wrong
  // CRC (nothing is lost: send it again), wrong length, a chunk after a gap. NOT_FOUND: no such
  // transfer (any more).
  void put_chunk(1: Chunk chunk) throws (1: node.ServiceError failure)

  // Answers when the call has been answered. INVALID_ARGUMENT: chunks are missing.
  LargeAnswer run_transfer(1: string transfer) throws (1: node.ServiceError failure)

  Chunk get_chunk(1: string transfer, 2: i32 index) throws (1: node.ServiceError failure)

  // Also for names that are not there.
  void end_transfer(1: string transfer) throws (1: node.ServiceError failure)
}
