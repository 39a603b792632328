// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A client as plain as can be: a blocking socket, one thread, any sequence id, any framing, any
// bytes.

#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "plugin/frame/reader.h"
#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

namespace thriftps_test {

struct FreeMessage
{
  void
  operator() (TpsMessage *message) const
  {
    tps_message_free (message);
  }
};
using Message = std::unique_ptr<TpsMessage, FreeMessage>;

using WriteFields = std::function<void (TpsWriter *)>;

struct Wire
{
  TpsProtocolKind protocol = TPS_PROTOCOL_BINARY;
  bool framed = true;
};

// The bytes of one message whose arguments struct has `fields`.
std::string MessageBytes (const Wire &wire, const std::string &name, int seqid,
                          const WriteFields &fields = nullptr,
                          TpsMessageKind kind = TPS_MESSAGE_CALL);

class RawClient
{
public:
  // Dies where nobody answers.
  explicit RawClient (const std::string &address, Wire wire = Wire ());
  ~RawClient ();
  RawClient (const RawClient &) = delete;
  RawClient &operator= (const RawClient &) = delete;

  // False when the peer has closed.
  bool SendBytes (const std::string &bytes);
  bool Send (const std::string &name, int seqid, const WriteFields &fields = nullptr,
             TpsMessageKind kind = TPS_MESSAGE_CALL);

  // The next answer; null when the connection ended.
  Message Receive ();

  // File descriptors that came with answers, the oldest first; the caller's. -1: no more.
  int TakeDescriptor ();

  Message Call (const std::string &name, const WriteFields &fields = nullptr, int seqid = 0);

  // Sends as much of `bytes` as the sockets take without blocking for `patience_ms`; how much.
  size_t SendUntilStuck (const std::string &bytes, int patience_ms);

  bool IsClosedByPeer (); // waits until it is
  void StopSending ();
  int
  fd () const
  {
    return fd_;
  }

private:
  Wire wire_;
  int fd_ = -1;
  TpsScanner *scanner_ = nullptr;
  std::string unread_;
  std::deque<int> descriptors_;

  ssize_t ReceiveBytes (char *bytes, size_t size);
};

// What an answer says.
int ErrorCode (
    const Message &answer); // of its ServiceError; 0 = none, -1 = no answer, -2 = exception
std::string ErrorText (const Message &answer); // of its ServiceError or TApplicationException
int RetryAfterMs (const Message &answer);      // -1 = not said
int ExceptionKind (const Message &answer);     // of its TApplicationException; 0 = none
gint64 IntResult (const Message &answer);      // field 0, i32 or i64
std::string BinaryResult (const Message &answer);

} // namespace thriftps_test
