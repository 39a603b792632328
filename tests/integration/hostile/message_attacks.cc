/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Invalid messages: bad frames, bad headers and truncated messages. */

#include "tests/integration/hostile/pieces.h"

using wire::Value;

namespace hostile {

namespace {

/* ---- frames --------------------------------------------------------------------------------- */

std::string
zero_length_frame (const Form &, const Victim &)
{
  return wire::be32 (0);
}

std::string
frame_length_all_ones (const Form &, const Victim &)
{
  /* Without frames, this is a message that begins with 0xff. */
  return wire::be32 (0xffffffff) + std::string (64, 'x');
}

std::string
frame_length_2_gib (const Form &, const Victim &)
{
  return wire::be32 (0x7fffffff) + std::string (64, 'x');
}

std::string
frame_length_above_limit (const Form &, const Victim &)
{
  return wire::be32 ((256u << 20) + 1) + std::string (64, 'x');
}

std::string
frame_longer_than_message (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (message + "more");
}

std::string
frame_shorter_than_message (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::be32 (static_cast<uint32_t> (message.size () - 3)) + message;
}

std::string
field_split_over_two_frames (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  size_t half = message.size () - 6;
  return wire::frame (message.substr (0, half)) + wire::frame (message.substr (half));
}

std::string
message_split_in_its_header (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (message.substr (0, 3)) + wire::frame (message.substr (3));
}

std::string
one_byte_frames (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  std::string result;
  for (char c : message)
    result += wire::frame (std::string (1, c));
  return result;
}

std::string
two_messages_in_one_frame (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (message + message);
}

std::string
frame_in_a_frame (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + wire::encode_value (form.protocol, victim.arguments);
  return wire::frame (wire::frame (message));
}

/* ---- truncated messages --------------------------------------------------------------------- */

std::string
truncated_in_the_name (const Form &form, const Victim &victim)
{
  return good_call (form, victim).substr (0, form.framed ? 13 : 9);
}

std::string
truncated_in_the_middle (const Form &form, const Victim &victim)
{
  std::string message = good_call (form, victim);
  return message.substr (0, message.size () / 2);
}

std::string
truncated_by_one_byte (const Form &form, const Victim &victim)
{
  std::string message = good_call (form, victim);
  return message.substr (0, message.size () - 1);
}

std::string
stalled_in_the_first_bytes (const Form &form, const Victim &victim)
{
  return good_call (form, victim).substr (0, 3);
}

/* Announces 16 MB and sends only a few bytes of it. */
std::string
stalled_in_16_mb (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + field (form, wire::String, kUnknownField)
                        + length (form, 16000000) + std::string (1000, 'x');
  return (form.framed ? wire::be32 (16000100) : std::string ()) + message;
}

/* ---- the message's header ------------------------------------------------------------------- */

std::string
http_request (const Form &form, const Victim &)
{
  std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  return form.framed ? wire::frame (text) : text;
}

std::string
no_version (const Form &form, const Victim &victim)
{
  /* This is the order of the binary protocol before it had versions: name, type, sequence id. */
  std::string name = name_of (form, victim);
  return whole (form, wire::be32 (static_cast<uint32_t> (name.size ())) + name + bytes ({ 1 })
                          + wire::be32 (1) + bytes ({ 0 }));
}

std::string
unknown_version (const Form &form, const Victim &victim)
{
  std::string message = head (form, victim) + bytes ({ 0 });
  message[1] = is_binary (form) ? 9 : static_cast<char> (0x27);
  return whole (form, message);
}

std::string
kind_zero (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), 0);
}

std::string
kind_seven (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), 7);
}

std::string
kind_reply (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), wire::Reply);
}

std::string
kind_exception (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim), wire::Exception);
}

std::string
empty_name (const Form &form, const Victim &victim)
{
  return good_named (form, victim, "");
}

std::string
colon_as_name (const Form &form, const Victim &victim)
{
  return good_named (form, victim, ":");
}

std::string
service_without_method (const Form &form, const Victim &victim)
{
  return good_named (form, victim, victim.service);
}

std::string
service_and_colon (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string (victim.service) + ":");
}

std::string
two_colons (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string (victim.service) + ":" + victim.method + ":x");
}

std::string
unknown_service (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string ("NoSuch:") + victim.method);
}

std::string
unknown_method (const Form &form, const Victim &victim)
{
  return good_named (form, victim, name_of (form, victim, "no_such_method"));
}

std::string
name_of_format_specifiers (const Form &form, const Victim &victim)
{
  return good_named (form, victim, "%s%n%s%n%1000000d");
}

std::string
name_of_600_bytes (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string (600, 'a'));
}

std::string
name_claims_2_gib (const Form &form, const Victim &)
{
  std::string start = is_binary (form) ? wire::be32 (0x80010001) : bytes ({ 0x82, 0x21, 0x01 });
  return whole (form, start + length (form, 0x7fffffff) + "abc");
}

std::string
name_of_negative_length (const Form &form, const Victim &)
{
  std::string start = is_binary (form) ? wire::be32 (0x80010001) : bytes ({ 0x82, 0x21, 0x01 });
  return whole (form, start + length (form, 0xffffffff) + "abc");
}

std::string
name_with_nul (const Form &form, const Victim &victim)
{
  return good_named (form, victim, std::string ("echo\0echo", 9));
}

std::string
name_not_utf8 (const Form &form, const Victim &victim)
{
  return good_named (form, victim, "\xff\xfe\x80");
}

} // namespace

std::vector<Attack>
message_attacks ()
{
  return {
    { "ZeroLengthFrame", Outcome::Refused, zero_length_frame, FRAMES },
    { "FrameLengthAllOnes", Outcome::Refused, frame_length_all_ones },
    { "FrameLength2GiB", Outcome::Refused, frame_length_2_gib, FRAMES },
    { "FrameLengthAboveLimit", Outcome::Refused, frame_length_above_limit, FRAMES },
    { "FrameLongerThanMessage", Outcome::Refused, frame_longer_than_message,
      FRAMES | OUR_TRANSPORT },
    { "FrameShorterThanMessage", Outcome::Refused, frame_shorter_than_message, FRAMES },
    { "FieldSplitOverTwoFrames", Outcome::Refused, field_split_over_two_frames,
      FRAMES | OUR_TRANSPORT },
    { "MessageSplitInItsHeader", Outcome::Refused, message_split_in_its_header,
      FRAMES | OUR_TRANSPORT },
    { "OneByteFrames", Outcome::Refused, one_byte_frames, FRAMES | OUR_TRANSPORT },
    { "TwoMessagesInOneFrame", Outcome::Refused, two_messages_in_one_frame,
      FRAMES | OUR_TRANSPORT },
    { "FrameInAFrame", Outcome::Refused, frame_in_a_frame, FRAMES },
    { "TruncatedInTheName", Outcome::Refused, truncated_in_the_name },
    { "TruncatedInTheMiddle", Outcome::Refused, truncated_in_the_middle },
    { "TruncatedByOneByte", Outcome::Refused, truncated_by_one_byte },
    { "StalledInTheFirstBytes", Outcome::Stalls, stalled_in_the_first_bytes },
    { "StalledIn16MB", Outcome::Stalls, stalled_in_16_mb },
    { "HttpRequest", Outcome::Refused, http_request },
    { "NoVersion", Outcome::Refused, no_version, BINARY },
    { "UnknownVersion", Outcome::Refused, unknown_version },
    { "KindZero", Outcome::Refused, kind_zero },
    { "KindSeven", Outcome::Refused, kind_seven },
    { "KindReply", Outcome::Refused, kind_reply },
    { "KindException", Outcome::Refused, kind_exception },
    { "EmptyName", Outcome::Refused, empty_name },
    { "ColonAsName", Outcome::Refused, colon_as_name },
    { "ServiceWithoutMethod", Outcome::Answered, service_without_method },
    { "ServiceAndColon", Outcome::Answered, service_and_colon },
    { "TwoColons", Outcome::Answered, two_colons },
    { "UnknownService", Outcome::Answered, unknown_service },
    { "UnknownMethod", Outcome::Answered, unknown_method },
    { "NameOfFormatSpecifiers", Outcome::Answered, name_of_format_specifiers },
    { "NameOf600Bytes", Outcome::Refused, name_of_600_bytes },
    { "NameClaims2GiB", Outcome::Refused, name_claims_2_gib },
    { "NameOfNegativeLength", Outcome::Refused, name_of_negative_length },
    { "NameWithNul", Outcome::Refused, name_with_nul, OUR_TRANSPORT },
    { "NameNotUtf8", Outcome::Refused, name_not_utf8 },
  };
}

} // namespace hostile
