package xds

import (
	"bytes"
	"encoding/binary"
)

const (
	// patternMin is the length in bytes from which on a marshalled resource is worth packing.
	patternMin = 128
	// copyMin is the length of the shortest text that a packed resource has from its pattern.
	copyMin = 12
)

// pattern is the marshalled form of one resource of a kind. The others mostly say the same with other
// names, so that each keeps what it has of its own, and where in the pattern the rest stands.
type pattern []byte

// pack returns what is to be kept of a body: pieces of its own, each with its length before it, and behind
// each piece the length and the place of what follows from the pattern. The last one has nothing behind it.
func (p pattern) pack(body []byte) []byte {
	var packed []byte
	own := 0 // where the piece begins
	number := func(n int) {
		packed = binary.AppendUvarint(packed, uint64(n)) //nolint:gosec // It is a length or a place in a slice.
	}
	add := func(end int) {
		number(end - own)
		packed = append(packed, body[own:end]...)
	}
	for at := 0; at+copyMin <= len(body); {
		from := bytes.Index(p, body[at:at+copyMin])
		if from < 0 {
			at++
			continue
		}
		add(at)
		length := copyMin
		for at+length < len(body) && from+length < len(p) && body[at+length] == p[from+length] {
			length++
		}
		number(length)
		number(from)
		at += length
		own = at
	}
	add(len(body))
	return bytes.Clone(packed)
}

// unpack returns the body that was packed.
func (p pattern) unpack(packed []byte) []byte {
	body := make([]byte, 0, len(p)+len(packed))
	next := func() int {
		value, size := binary.Uvarint(packed)
		packed = packed[size:]
		return int(value) //nolint:gosec // It is the length of a slice, or a place in one.
	}
	for {
		own := next()
		body, packed = append(body, packed[:own]...), packed[own:]
		if len(packed) == 0 {
			return body
		}
		length, from := next(), next()
		body = append(body, p[from:from+length]...)
	}
}
