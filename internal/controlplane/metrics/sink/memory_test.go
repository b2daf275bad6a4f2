package sink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// clusters returns a message with one request to each of many clusters with long names.
func clusters(count int) (message []byte) {
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	one := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(1))
	metric := field(4, field(3, one))
	for i := range count {
		name := field(1, fmt.Appendf(nil, "cluster.%0500d.upstream_rq_total", i))
		message = append(message, field(messageMetrics, append(name, metric...))...)
	}
	return message
}

// TestStreamsOfAFleetShareTheirMemory decodes large messages on many streams of a fleet. Another fleet has its own
// part, and the memory is free after the streams.
func TestStreamsOfAFleetShareTheirMemory(t *testing.T) {
	t.Parallel()
	text, all := clusters(100_000), new(memory)
	decode := func(account string) (*decoder, error) {
		d := &decoder{share: &share{memory: all, account: account}}
		_, err := d.decode(bufio.NewReader(bytes.NewReader(text)), int64(len(text)))
		return d, err
	}
	var open []*decoder
	for {
		d, err := decode("evil")
		open = append(open, d)
		if errors.Is(err, errTooLarge) {
			break
		}
		if err != nil || len(open) > 20 {
			t.Fatalf("stream %d: %v", len(open), err)
		}
	}
	if len(open) < 5 || all.accounts["evil"] > maxAccountMemory {
		t.Errorf("%d streams, with %d bytes", len(open), all.accounts["evil"])
	}
	other, err := decode("apps")
	if err != nil {
		t.Errorf("a stream of another fleet: %v", err)
	}
	for _, d := range append(open, other) {
		d.share.free()
	}
	if all.used != 0 || len(all.accounts) != 0 {
		t.Errorf("%d bytes are used after the streams", all.used)
	}
}

// TestMemoryOfASmallerMessage is given back.
func TestMemoryOfASmallerMessage(t *testing.T) {
	t.Parallel()
	all := new(memory)
	d := &decoder{share: &share{memory: all, account: "apps"}}
	for _, count := range []int{20_000, 10, 10} {
		text := clusters(count)
		if _, err := d.decode(bufio.NewReader(bytes.NewReader(text)), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	if all.used > memoryStep {
		t.Errorf("%d bytes are used", all.used)
	}
}
