// Package grpcserver serves gRPC streams on the HTTP/2 server of the standard library, in a bounded amount of memory. It
// replaces the server of gRPC-Go, whose limits are lengths of messages. A message of 16 MiB can take forty times as much
// memory there: gRPC-Go stores each frame of a message separately, and decodes fields that no one reads.
//
//   - A stream occupies memory for a message only after a reservation in a [Budget], which contains what the decoded
//     message can take. It lasts until the stream receives its next message. Each account, such as a fleet, has a part
//     of the Budget.
//   - Unread bytes of a stream are limited by its flow control window, however they are divided into frames. A stream
//     that ends discards them, and those that follow.
//   - Only the [Fields] of a message that its service uses are decoded.
//   - A response can be encoded while it is sent: see [Parts].
//   - Streams and calls of all addresses are limited, with a fair share for each address.
//
// Compressed messages are not supported.
package grpcserver
