package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// ports are three addresses of this machine that nobody listens on.
func ports(t *testing.T) rawAddresses {
	t.Helper()
	free := func(network string) string {
		if network == "udp" {
			port, err := new(net.ListenConfig).ListenPacket(t.Context(), network, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer port.Close()
			return port.LocalAddr().String()
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), network, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return listener.Addr().String()
	}
	return rawAddresses{tcp: free("tcp"), tls: free("tcp"), udp: free("udp")}
}

func TestAskIsAnsweredWithoutHTTP(t *testing.T) {
	addresses := ports(t)
	r, err := serveRaw(t.Context(), addresses, "blue")
	if err != nil {
		t.Fatal(err)
	}
	for protocol, address := range map[string]string{"tcp": addresses.tcp, "tls": addresses.tls, "udp": addresses.udp} {
		q := question{protocol: protocol, address: address, serverName: "echo.example.com", timeout: 5 * time.Second}
		if got, err := q.ask(t.Context()); got != "blue" || err != nil {
			t.Errorf("%s: answer %q, %v", protocol, got, err)
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	q := question{protocol: "tcp", address: addresses.tcp, timeout: time.Second}
	if got, err := q.ask(t.Context()); err == nil {
		t.Errorf("the closed port answers %q", got)
	}
}

func TestAPortThatIsTakenEndsTheApp(t *testing.T) {
	addresses := ports(t)
	first, err := serveRaw(t.Context(), addresses, "blue")
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if _, err := serveRaw(t.Context(), rawAddresses{tcp: addresses.tcp}, "blue"); err == nil {
		t.Error("a second app listens on the same port")
	}
}

// lines ends a context once it holds so many lines.
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
	addresses := ports(t)
	r, err := serveRaw(t.Context(), addresses, "green")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for address, want := range map[string]string{addresses.tcp: "green", addresses.tls: "error: "} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		out := &lines{want: 3, end: cancel}
		args := []string{"--protocol=tcp", "--address=" + address, "--rate=50", "--timeout=200ms"}
		if address == addresses.tls {
			args[0] = "--protocol=udp" // where only TCP is served
		}
		if err := runAsk(ctx, args, out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.text.String()) {
			if _, answer, _ := strings.Cut(line, " "); !strings.HasPrefix(answer, want) {
				t.Errorf("line %q, want one with %q", line, want)
			}
		}
	}
}

func TestAskRefusesWhatItCannotAsk(t *testing.T) {
	for _, args := range [][]string{{"--protocol=http", "--address=a:1"}, {"--protocol=tcp"}, {"--address=a:1", "--rate=0"}, {"--color=blue"}} {
		if err := runAsk(t.Context(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
