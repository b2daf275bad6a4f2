package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
)

// ports are three free addresses of this machine.
func ports() rawAddresses {
	host := loopback.Address()
	at := func(port uint16) string { return netip.AddrPortFrom(host, port).String() }
	return rawAddresses{tcp: at(20000), tls: at(20001), udp: at(20000)}
}

func TestAskIsAnsweredWithoutHTTP(t *testing.T) {
	addresses := ports()
	r, err := serveRaw(t.Context(), addresses, "blue")
	if err != nil {
		t.Fatal(err)
	}
	for protocol, address := range map[string]string{"tcp": addresses.tcp, "tls": addresses.tls, "udp": addresses.udp} {
		q := target{protocol: protocol, address: address, serverName: "echo.example.com", timeout: await.Patience()}
		if got, err := q.request(t.Context()); got != "blue" || err != nil {
			t.Errorf("%s: answer %q, %v", protocol, got, err)
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	q := target{protocol: "tcp", address: addresses.tcp, timeout: await.Patience()}
	if got, err := q.request(t.Context()); err == nil {
		t.Errorf("the closed port answers %q", got)
	}
}

func TestPortInUseEndsTheApp(t *testing.T) {
	addresses := ports()
	first, err := serveRaw(t.Context(), addresses, "blue")
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if _, err := serveRaw(t.Context(), rawAddresses{tcp: addresses.tcp}, "blue"); err == nil {
		t.Error("a second app listens on the same port")
	}
}

// lines ends a context once it contains the given number of lines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	want int
	end  context.CancelFunc
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	if bytes.Count(l.text.Bytes(), []byte("\n")) >= l.want {
		l.end()
	}
	return n, err
}

func TestAskPrintsEveryAnswerAndEveryFailure(t *testing.T) {
	addresses := ports()
	r, err := serveRaw(t.Context(), addresses, "green")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for address, want := range map[string]string{addresses.tcp: "green", addresses.tls: "error:"} {
		ctx, cancel := context.WithCancel(await.Context(t))
		out, began := &lines{want: 3, end: cancel}, time.Now()
		args := []string{"--protocol=tcp", "--address=" + address, "--rate=50", "--timeout=" + await.Patience().String()}
		if address == addresses.tls {
			args[0], args[3] = "--protocol=udp", "--timeout=200ms" //testbounds:allow only TCP is served there, so that there is no answer
		}
		if err := runRequest(ctx, args, out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.text.String()) {
			var number, due, took int64
			var answer string
			_, err := fmt.Sscan(line, &number, &due, &took, &answer)
			if err != nil || due < began.UnixMilli() || took <= 0 || !strings.HasPrefix(answer, want) {
				t.Errorf("line %q, want one with %q: %v", line, want, err)
			}
		}
	}
}

// Each request is due by the rate, counted from the first, and none is skipped.
func TestAskKeepsItsSchedule(t *testing.T) {
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	out := &lines{want: 50, end: cancel}
	if err := runRequest(ctx, []string{"--protocol=tcp", "--address=" + ports().tcp, "--rate=500"}, out); err != nil {
		t.Fatal(err)
	}
	due := map[int64]int64{}
	for line := range strings.Lines(out.text.String()) {
		var number, at int64
		if _, err := fmt.Sscan(line, &number, &at); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		due[number] = at
	}
	for number := range int64(len(due)) {
		if off := due[number] - due[0] - 2*number; off < -1 || off > 1 {
			t.Errorf("request %d is due %d ms after the first", number, due[number]-due[0])
		}
	}
}

func TestAskRejectsInvalidFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--protocol=sctp", "--address=a:1"}, {"--protocol=tcp"}, {"--address=a:1", "--rate=0"}, {"--color=blue"},
	} {
		if err := runRequest(t.Context(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%v returned no error", args)
		}
	}
}
