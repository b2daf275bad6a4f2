package grpcserver

import (
	"strconv"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
)

// usedFields are the type, the names, the versions and the error message of a discovery request.
func usedFields() Fields { return Fields{2: nil, 3: nil, 5: nil, 7: {2: nil}} }

// marshal encodes a message.
func marshal(t *testing.T, message proto.Message) []byte {
	t.Helper()
	text, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTrim removes what is not used, also within an embedded message.
func TestTrim(t *testing.T) {
	t.Parallel()
	full := &discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "proxy", Cluster: "apps"}, TypeUrl: "type", ResourceNamesSubscribe: []string{"a", "", "c"},
		InitialResourceVersions: map[string]string{"a": "1", "b": "2"}, ResponseNonce: "nonce",
		ErrorDetail: &statusv3.Status{Code: 3, Message: "no", Details: []*anypb.Any{{TypeUrl: "x"}, {TypeUrl: "y"}}},
	}
	want := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: "type", ResourceNamesSubscribe: []string{"a", "", "c"},
		InitialResourceVersions: map[string]string{"a": "1", "b": "2"}, ErrorDetail: &statusv3.Status{Message: "no"},
	}
	trimmed, err := usedFields().trim(marshal(t, full), 10)
	got := new(discoveryv3.DeltaDiscoveryRequest)
	if err != nil || proto.Unmarshal(trimmed, got) != nil {
		t.Fatalf("%v, %x", err, trimmed)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTrimLimitsRepetitions keeps the first names.
func TestTrimLimitsRepetitions(t *testing.T) {
	t.Parallel()
	full := &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "n"}
	for i := range 1000 {
		full.ResourceNamesSubscribe = append(full.ResourceNamesSubscribe, strconv.Itoa(i))
	}
	trimmed, err := usedFields().trim(marshal(t, full), 3)
	got := new(discoveryv3.DeltaDiscoveryRequest)
	if err != nil || proto.Unmarshal(trimmed, got) != nil {
		t.Fatalf("%v, %x", err, trimmed)
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, got.GetResourceNamesSubscribe()); diff != "" {
		t.Error(diff)
	}
}

// FuzzTrim compares the used fields with those of the whole message.
func FuzzTrim(f *testing.F) {
	f.Add([]byte{0x12, 1, 'x', 0x1a, 0})
	f.Add([]byte{0x3a, 4, 0x12, 2, 'a', 'b', 0x08, 1})
	f.Add([]byte{0x3a, 4, 0x12, 2, 'a'})
	f.Add([]byte{0x38, 4})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, message []byte) {
		whole, got := new(discoveryv3.DeltaDiscoveryRequest), new(discoveryv3.DeltaDiscoveryRequest)
		failed := proto.Unmarshal(message, whole)
		length := len(message)
		trimmed, err := usedFields().trim(append([]byte(nil), message...), length+1)
		if err != nil {
			if failed == nil {
				t.Fatalf("%x: %v", message, err)
			}
			return
		}
		if len(trimmed) > length {
			t.Fatalf("%x has become %x", message, trimmed)
		}
		if failed != nil {
			return
		}
		if err := proto.Unmarshal(trimmed, got); err != nil {
			t.Fatalf("%x: %v", trimmed, err)
		}
		if got.GetTypeUrl() != whole.GetTypeUrl() || got.GetErrorDetail().GetMessage() != whole.GetErrorDetail().GetMessage() ||
			!cmp.Equal(got.GetResourceNamesSubscribe(), whole.GetResourceNamesSubscribe()) ||
			!cmp.Equal(got.GetInitialResourceVersions(), whole.GetInitialResourceVersions()) {
			t.Fatalf("%x: %v, want the fields of %v", message, got, whole)
		}
	})
}
