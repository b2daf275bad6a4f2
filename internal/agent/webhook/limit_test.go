package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

func TestMain(m *testing.M) { leak.Main(m) }

// addressedConn is a connection with the address of its client.
type addressedConn struct {
	net.Conn

	from string
}

func (c addressedConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 40000}
}

// hook is the limited handler of a test. It has the clock of synctest.
type hook struct {
	t      *testing.T
	server *http.Server

	mu            sync.Mutex // guards the fields below
	running, most int        // requests: now, and the most at a time
}

// begin counts a request until end is called.
func (h *hook) begin() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running++
	h.most = max(h.most, h.running)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running--
	}
}

// newHook returns a hook that answers each request with the length of its body, after a while.
func newHook(t *testing.T, duration time.Duration) *hook {
	t.Helper()
	h := &hook{t: t}
	h.server = memhttp.Server(limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer h.begin()()
		body, err := io.ReadAll(r.Body)
		time.Sleep(duration) // The clock is synctest's.
		_, _ = fmt.Fprint(w, len(body), err)
	})).ServeHTTP)
	return h
}

// send sends a request from an address. It announces length bytes and sends the body. The channel receives the status
// and the body of the response.
func (h *hook) send(from, body string, length int) <-chan string {
	h.t.Helper()
	client, served := net.Pipe()
	go func() {
		_ = h.server.Serve(&onceListener{conn: addressedConn{served, from}, done: make(chan struct{})})
	}()
	h.t.Cleanup(func() { _ = client.Close() })
	answer := make(chan string, 1)
	go func() {
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		answer <- fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
	}()
	go func() { // It ends when the connection is closed.
		_, _ = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n%s", length, body)
	}()
	return answer
}

// onceListener accepts one connection.
type onceListener struct {
	conn net.Conn
	done chan struct{}
}

func (l *onceListener) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *onceListener) Close() error {
	close(l.done)
	return nil
}

func (l *onceListener) Addr() net.Addr { return &net.TCPAddr{} }

// run runs a test with a hook in a bubble.
func run(t *testing.T, duration time.Duration, test func(h *hook)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHook(t, duration)
		defer func() {
			_ = h.server.Close()
			time.Sleep(time.Minute) // The clock is synctest's: the server's goroutines end.
		}()
		test(h)
	})
}

// TestSlowBodiesDelayTheAPIServerLittle has two Pods that send bodies byte by byte, in more requests than are read at a
// time. A request of the API server is answered before its timeout of 5 s, and the slow ones are ended.
func TestSlowBodiesDelayTheAPIServerLittle(t *testing.T) {
	run(t, 0, func(h *hook) {
		var slow []<-chan string
		for i := range 40 {
			slow = append(slow, h.send(fmt.Sprintf("10.0.0.%d", 7+i%2), "{", 1<<20))
		}
		synctest.Wait()
		began := time.Now()
		if got := <-h.send("10.0.0.1", "{}", 2); got != "200 2 <nil>" {
			h.t.Errorf("the API server received %s", got)
		}
		if waited := time.Since(began); waited > bodyTimeout { // The clock is synctest's.
			h.t.Errorf("the API server waited %v, want at most %v", waited, bodyTimeout)
		}
		for _, answer := range slow {
			if got := <-answer; !strings.HasPrefix(got, "408 ") && !strings.HasPrefix(got, "503 ") {
				h.t.Errorf("a slow request received %s", got)
			}
		}
	})
}

// TestLargeBodies: a body above the limit is rejected, by its announced or by its real length, and one of the largest
// size is passed on.
func TestLargeBodies(t *testing.T) {
	run(t, 0, func(h *hook) {
		if got := <-h.send("10.0.0.1", "", maxBody+1); !strings.HasPrefix(got, "413 ") {
			h.t.Errorf("an announced length of %d: %s", maxBody+1, got)
		}
		want := fmt.Sprint("200 ", maxBody, " <nil>")
		if got := <-h.send("10.0.0.1", strings.Repeat("x", maxBody), maxBody); got != want {
			h.t.Errorf("a body of %d bytes: %s", maxBody, got)
		}
	})
}

// TestFewReviewsAtATime sends a burst of requests from the API server: all are answered, a few at a time.
func TestFewReviewsAtATime(t *testing.T) {
	run(t, 10*time.Millisecond, func(h *hook) {
		var answers []<-chan string
		for i := range 200 {
			answers = append(answers, h.send(fmt.Sprintf("10.0.0.%d", 1+i%3), "{}", 2))
		}
		for _, answer := range answers {
			if got := <-answer; got != "200 2 <nil>" {
				h.t.Fatal(got)
			}
		}
		if h.most > maxReviews {
			h.t.Errorf("%d requests were answered at a time, want at most %d", h.most, maxReviews)
		}
	})
}
