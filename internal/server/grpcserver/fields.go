package grpcserver

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields are the numbers of the fields of a message that its service uses, from 1 to 15. They are texts, maps or embedded
// messages. The value contains the used fields of an embedded message; nil means the whole field.
type Fields map[protowire.Number]Fields

// maxNumber is the largest number in Fields.
const maxNumber = 15

// trim removes all other fields from an encoded message, and those above the maximum number of fields with the same
// number. It changes the message in place. An error means that the message is malformed.
func (f Fields) trim(message []byte, maxRepeated int) ([]byte, error) {
	kept := message[:0]
	var counts [maxNumber + 1]int
	for len(message) > 0 {
		number, kind, tagLength := protowire.ConsumeTag(message)
		if tagLength < 0 {
			return nil, errMalformed(tagLength)
		}
		length := protowire.ConsumeFieldValue(number, kind, message[tagLength:])
		if length < 0 {
			return nil, errMalformed(length)
		}
		field := message[:tagLength+length]
		message = message[tagLength+length:]
		inner, isUsed := f[number]
		if !isUsed || kind != protowire.BytesType || counts[number] >= maxRepeated {
			continue
		}
		counts[number]++
		var err error
		if kept, err = appendField(kept, field, tagLength, inner, maxRepeated); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// appendField appends a field to the message in front of it, with the used fields of an embedded message only.
func appendField(to, field []byte, tagLength int, used Fields, maxRepeated int) ([]byte, error) {
	if used == nil {
		return append(to, field...), nil
	}
	value, length := protowire.ConsumeBytes(field[tagLength:])
	if length < 0 {
		return nil, errMalformed(length)
	}
	value, err := used.trim(value, maxRepeated)
	if err != nil {
		return nil, err
	}
	to = append(to, field[:tagLength]...)
	return append(protowire.AppendVarint(to, uint64(len(value))), value...), nil
}

// errMalformed returns the status of a message that cannot be decoded.
func errMalformed(code int) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf("malformed message: %v", protowire.ParseError(code)))
}
