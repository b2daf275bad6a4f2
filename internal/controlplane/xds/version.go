package xds

import (
	"crypto/sha256"
	"encoding/hex"
)

// version is a hash of a content: 128 bits, so that two contents of one name never share a version by
// accident or by intent. The zero value is none.
type version [16]byte

// hashOf is the version of a content.
func hashOf(content []byte) version {
	sum := sha256.Sum256(content)
	return version(sum[:len(version{})])
}

// versionOf reads a version that a proxy brings along. One of another server is that of no content.
func versionOf(text string) version {
	if text == "" {
		return version{}
	}
	read, err := hex.DecodeString(text)
	if err != nil || len(read) != len(version{}) {
		return hashOf([]byte("of another server: " + text))
	}
	return version(read)
}

// String is the version on the wire, "" for none.
func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return hex.EncodeToString(v[:])
}
