// Package sources parses the addresses from which the external proxies of an HTTPScaledObject may report. It is pure.
package sources

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

const (
	// MaxBytes is the maximum length of a text in bytes.
	MaxBytes = 4096
	// MaxEntries is the maximum number of addresses and CIDRs in it.
	MaxEntries = 64
)

// ErrSources is in the chain of the errors of Parse.
var ErrSources = errors.New("not a list of CIDRs")

// Parse parses a list of IP addresses and CIDRs, separated by commas. The result is empty for an empty text. The error
// contains the invalid entry and the fix; the result is then empty.
func Parse(text string) ([]netip.Prefix, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: it is longer than %d bytes: combine CIDRs", ErrSources, MaxBytes)
	}
	var prefixes []netip.Prefix
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		prefix, err := parseEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q: separate IP addresses and CIDRs by commas, such as 10.0.0.0/8, 192.0.2.7",
				ErrSources, entry)
		}
		prefixes = append(prefixes, prefix)
	}
	if len(prefixes) > MaxEntries {
		return nil, fmt.Errorf("%w: %d entries exceed the limit of %d: combine CIDRs", ErrSources, len(prefixes), MaxEntries)
	}
	return prefixes, nil
}

// errForm means that an address has a zone or is an IPv4 address in IPv6 form. The addresses of peers are compared
// without these.
var errForm = errors.New("unsupported form of an address")

// parseEntry parses an address or a CIDR.
func parseEntry(entry string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(entry)
	if !strings.Contains(entry, "/") {
		var address netip.Addr
		if address, err = netip.ParseAddr(entry); err == nil {
			prefix = netip.PrefixFrom(address, address.BitLen()) // It has no zone.
		}
		if address.Zone() != "" {
			err = errForm
		}
	}
	if err == nil && prefix.Addr().Is4In6() {
		err = errForm
	}
	return prefix.Masked(), err
}

// Contain reports whether one of the prefixes contains an address.
func Contain(prefixes []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// IsAny reports whether the prefixes together contain all addresses of an IP version, such as 0.0.0.0/1 and 128.0.0.0/1.
func IsAny(prefixes []netip.Prefix) bool {
	return covers(prefixes, netip.PrefixFrom(netip.IPv4Unspecified(), 0)) ||
		covers(prefixes, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
}

// covers reports whether the prefixes together contain all addresses of a prefix.
func covers(prefixes []netip.Prefix, whole netip.Prefix) bool {
	var within []netip.Prefix
	for _, prefix := range prefixes {
		if !prefix.Overlaps(whole) {
			continue
		}
		if prefix.Bits() <= whole.Bits() {
			return true
		}
		within = append(within, prefix)
	}
	const halves = 2
	if len(within) < halves {
		return false
	}
	lower, upper := split(whole)
	return covers(within, lower) && covers(within, upper)
}

// split returns the two halves of a prefix of more than one address.
func split(whole netip.Prefix) (lower, upper netip.Prefix) {
	bytes, bit := whole.Addr().AsSlice(), whole.Bits()
	const bitsOfByte = 8
	bytes[bit/bitsOfByte] |= 1 << (bitsOfByte - 1 - bit%bitsOfByte)
	high, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(whole.Addr(), bit+1), netip.PrefixFrom(high, bit+1)
}
