package grpcserver_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// TestLargeHeaders opens streams with headers below and above the limit of 64 KiB, in several frames. A stream above it
// ends without a call, and the next one on the connection is served.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, grpcserver.Options{})
	const field = 8 << 10
	var block bytes.Buffer
	err := hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: "x-large", Value: strings.Repeat("x", field)})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, s.address)
	for _, c := range []struct {
		id     uint32
		fields int
		want   string
	}{{1, 7, statusNumber(codes.OK)}, {3, 8, ""}, {5, 0, statusNumber(codes.OK)}} {
		id := c.id
		err := conn.UnfinishedHeaders(id, path)
		for range c.fields {
			err = errors.Join(err, conn.Continue(id, block.Bytes()))
		}
		if err = errors.Join(err, conn.EndHeaders(id, nil)); err != nil {
			t.Fatal(err)
		}
		if c.want != "" {
			_ = conn.End(id)
		}
		if got := conn.Status(id); got != c.want {
			t.Errorf("%d headers of %d bytes: status %q, want %q", c.fields, field, got, c.want)
		}
	}
	if conn.IsOver() {
		t.Error("the connection has ended")
	}
}
