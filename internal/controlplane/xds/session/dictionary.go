package session

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	// minCompressed is the length in bytes of the shortest marshalled resource that is compressed.
	minCompressed = 128
	// minMatch is the length in bytes of the shortest text that is copied from the dictionary.
	minMatch = 12
)

// dictionary is the marshalled form of one resource of a kind. The others mostly contain the same with other names, so
// each stores only its own text and where in the dictionary the rest is.
type dictionary []byte

// compress returns the compressed form of a body, a sequence of own texts. Each is preceded by its length and followed
// by the length and offset of a text in the dictionary. Nothing follows the last own text.
func (d dictionary) compress(body []byte) []byte {
	var compressed []byte
	start := 0 // of the own text
	appendNumber := func(n int) {
		compressed = binary.AppendUvarint(compressed, uint64(n)) //nolint:gosec // It is a length or an offset.
	}
	appendOwn := func(end int) {
		appendNumber(end - start)
		compressed = append(compressed, body[start:end]...)
	}
	for at := 0; at+minMatch <= len(body); {
		from := bytes.Index(d, body[at:at+minMatch])
		if from < 0 {
			at++
			continue
		}
		appendOwn(at)
		length := minMatch
		for at+length < len(body) && from+length < len(d) && body[at+length] == d[from+length] {
			length++
		}
		appendNumber(length)
		appendNumber(from)
		at += length
		start = at
	}
	appendOwn(len(body))
	return bytes.Clone(compressed)
}

// decompress appends the body of a compressed form.
func (d dictionary) decompress(body, compressed []byte) []byte {
	body = slices.Grow(body, len(d)+len(compressed))
	next := func() int {
		value, size := binary.Uvarint(compressed)
		compressed = compressed[size:]
		return int(value) //nolint:gosec // It is a length or an offset.
	}
	for {
		own := next()
		body, compressed = append(body, compressed[:own]...), compressed[own:]
		if len(compressed) == 0 {
			return body
		}
		length, from := next(), next()
		body = append(body, d[from:from+length]...)
	}
}
