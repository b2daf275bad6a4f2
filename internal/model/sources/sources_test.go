package sources_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model/sources"
)

// TestParse parses valid and invalid lists.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "[]",
		" , ":                              "[]",
		"10.0.0.0/8":                       "[10.0.0.0/8]",
		"10.1.2.3/8, 192.0.2.7,fd00::/8":   "[10.0.0.0/8 192.0.2.7/32 fd00::/8]",
		"fd00::1":                          "[fd00::1/128]",
		"0.0.0.0/0,::/0":                   "[0.0.0.0/0 ::/0]",
		"10.0.0.0/33":                      "error",
		"10.0.0.0/8;192.0.2.7":             "error",
		"gateway.example.com":              "error",
		"*":                                "error",
		"10.0.0.0/8,x":                     "error",
		"fe80::1%eth0":                     "error",
		"::ffff:10.0.0.0/104":              "error",
		"::ffff:10.0.0.1":                  "error",
		strings.Repeat("10.0.0.1,", 65):    "error",
		strings.Repeat(",", 4097):          "error",
		strings.Repeat("192.0.2.7 ,", 400): "error",
	} {
		prefixes, err := sources.Parse(text)
		got := fmt.Sprint(prefixes)
		if err != nil {
			got = "error"
		}
		if got != want || err != nil && (!errors.Is(err, sources.ErrSources) || len(prefixes) > 0) {
			t.Errorf("%.40q: got %s, %v; want %s", text, prefixes, err, want)
		}
	}
}

// TestContain looks up addresses of both IP versions.
func TestContain(t *testing.T) {
	t.Parallel()
	prefixes, err := sources.Parse("10.0.0.0/8, fd00::/8")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"10.255.0.1": true, "11.0.0.1": false, "fd12::1": true, "fe80::1": false} {
		if got := sources.Contain(prefixes, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
	if sources.IsAny(prefixes) {
		t.Error("the prefixes contain every address")
	}
}

// TestIsAny has prefixes that contain every address of an IP version only together.
func TestIsAny(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                 false,
		"0.0.0.0/0":                        true,
		"10.0.0.0/8,::/0":                  true,
		"0.0.0.0/1,128.0.0.0/1":            true,
		"128.0.0.0/1,::/1,0.0.0.0/1":       true,
		"::/1,8000::/1":                    true,
		"0.0.0.0/2,64.0.0.0/2,128.0.0.0/1": true,
		"0.0.0.0/2,64.0.0.0/3,96.0.0.0/3,128.0.0.0/1,10.0.0.0/8": true,
		"0.0.0.0/1":             false,
		"0.0.0.0/1,::/1":        false,
		"0.0.0.0/1,128.0.0.0/2": false,
		"0.0.0.0/1,128.0.0.0/2,192.0.0.0/3,224.0.0.0/4": false,
		"10.0.0.0/8,172.16.0.0/12,192.168.0.0/16":       false,
	} {
		prefixes, err := sources.Parse(text)
		if got := sources.IsAny(prefixes); err != nil || got != want {
			t.Errorf("IsAny(%s) = %v, %v; want %v", text, got, err, want)
		}
	}
}
