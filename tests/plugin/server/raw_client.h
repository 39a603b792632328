// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A minimal client with a blocking socket and one thread. It can send any sequence id, any framing
// and any bytes.

#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "plugin/frame/message.h"
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

// Returns the bytes of one message. `fields` writes the fields of its arguments struct.
std::string MessageBytes (const Wire &wire, const std::string &name, int seqid,
                          const WriteFields &fields = nullptr,
                          TpsMessageKind kind = TPS_MESSAGE_CALL);

class RawClient
{
public:
  // Connects, or aborts if no server listens.
  explicit RawClient (const std::string &address, Wire wire = Wire ());
  ~RawClient ();
  RawClient (const RawClient &) = delete;
  RawClient &operator= (const RawClient &) = delete;

  // Returns false if the peer has closed the connection.
  bool SendBytes (const std::string &bytes);
  bool Send (const std::string &name, int seqid, const WriteFields &fields = nullptr,
             TpsMessageKind kind = TPS_MESSAGE_CALL);

  // Returns the next reply, or null if the connection has ended.
  Message Receive ();

  // Returns the oldest file descriptor that arrived with replies, or -1 if there are none left. The
  // caller owns it.
  int TakeDescriptor ();

  // Makes a call and returns its reply, or null if the connection has ended.
  Message Call (const std::string &name, const WriteFields &fields = nullptr, int seqid = 0);

  // Sends bytes until the sockets have blocked for `patience_ms`. Returns the number of bytes sent.
  size_t SendUntilStuck (const std::string &bytes, int patience_ms);

  bool IsClosedByPeer (); // waits for the close
  // Shuts down the sending direction.
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

// Accessors for replies.
int ErrorCode (
    const Message &answer); // of its ServiceError; 0 = none, -1 = no answer, -2 = exception
std::string ErrorText (const Message &answer); // of its ServiceError or TApplicationException
int RetryAfterMs (const Message &answer);      // -1 = absent
int ExceptionKind (const Message &answer);     // of its TApplicationException; 0 = none
gint64 IntResult (const Message &answer);      // field 0, i32 or i64
// Returns field 0 as a binary.
std::string BinaryResult (const Message &answer);

} // namespace thriftps_test
