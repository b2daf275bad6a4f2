package session

import (
	"crypto/sha256"
	"encoding/hex"
)

// version is a hash of a content: 128 bits, so that two contents of one name never share a version, neither by accident
// nor on purpose. The zero value is none.
type version [16]byte

// hashOf returns the version of a content.
func hashOf(content []byte) version {
	sum := sha256.Sum256(content)
	return version(sum[:len(version{})])
}

// parseVersion parses a version that a proxy reported. The version of another server is mapped to that of no content.
func parseVersion(text string) version {
	if text == "" {
		return version{}
	}
	parsed, err := hex.DecodeString(text)
	if err != nil || len(parsed) != len(version{}) {
		return hashOf([]byte("of another server: " + text))
	}
	return version(parsed)
}

// String returns the version on the wire, "" for none.
func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return hex.EncodeToString(v[:])
}
