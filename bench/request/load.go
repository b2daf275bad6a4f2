package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// answerLimit bounds a block of requests.
const answerLimit = time.Minute

// errAnswer is returned for an unexpected answer to a request.
var errAnswer = errors.New("wrong answer")

// kind is a kind of request.
type kind struct {
	Name        string `json:"name"`
	Concurrency int    `json:"concurrency"`
	// Status and Bytes are the expected properties of the answer.
	Status int `json:"status"`
	Bytes  int `json:"bytes"`
	// MaxRatio limits its cost, in multiples of the plain table's.
	MaxRatio float64 `json:"maxRatio"`

	path string
	host func(i int) string
	// isKnown adds the cookie of a user to the request, another one to each.
	isKnown bool
}

// kinds are all kinds. "A hit" is a request of an exact host.
func kinds() []kind {
	exact := func(i int) string { return string(hostOf(i)) }
	hit := func(concurrency int) kind {
		return kind{
			Name: "a hit", Concurrency: concurrency, Status: http.StatusOK, Bytes: smallBody,
			MaxRatio: maxHit, path: "/", host: exact,
		}
	}
	large := hit(16)
	large.Bytes, large.path = largeBody, largePath
	known := hit(16)
	known.Name, known.isKnown = "a hit of a known user", true
	return []kind{
		hit(1), hit(16), hit(64), large, known,
		{
			Name: "a wildcard", Concurrency: 16, Status: http.StatusOK, Bytes: smallBody, MaxRatio: maxMiss,
			path: "/", host: func(i int) string { return fmt.Sprintf("%d.wild.test", i) },
		},
		{
			Name: "an unknown host", Concurrency: 16, Status: http.StatusNotFound, Bytes: -1, MaxRatio: maxMiss,
			path: "/", host: func(i int) string { return fmt.Sprintf("%d.unknown.test", i) },
		},
	}
}

// load is a set of connections to one proxy that sends requests of one kind.
type load struct {
	kind
	hosts       int
	connections []net.Conn
}

// dial opens the connections.
func dial(ctx context.Context, address string, kind kind, hosts int) (*load, error) {
	l := &load{kind: kind, hosts: hosts}
	for range kind.Concurrency {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			l.close()
			return nil, err
		}
		l.connections = append(l.connections, connection)
	}
	return l, nil
}

// close closes the connections.
func (l *load) close() {
	for _, connection := range l.connections {
		_ = connection.Close() // A failure loses no data.
	}
}

// send sends requests over all connections in parallel, in sequence on each. The hosts alternate.
func (l *load) send(requests int) error {
	errs := make([]error, len(l.connections))
	var group sync.WaitGroup
	for n, connection := range l.connections {
		group.Go(func() { errs[n] = l.sendOver(connection, n, requests) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// sendOver sends every request whose number modulo the number of connections is n.
func (l *load) sendOver(connection net.Conn, n, requests int) error {
	if err := connection.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	reader := bufio.NewReader(connection)
	for i := n; i < requests; i += len(l.connections) {
		host, cookie := l.host(i%l.hosts), ""
		if l.isKnown {
			cookie = fmt.Sprintf("Cookie: %s=user-%d\r\n", affinity.DefaultName, i)
		}
		if _, err := fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", l.path, host, cookie); err != nil {
			return err
		}
		if err := l.receive(reader, host); err != nil {
			return err
		}
	}
	return nil
}

// receive reads and checks the answer to a request of a host.
func (l *load) receive(reader *bufio.Reader, host string) error {
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	length, err := io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != l.Status || l.Bytes >= 0 && int(length) != l.Bytes {
		return fmt.Errorf("%w: %s of %d bytes to host %s", errAnswer, response.Status, length, host)
	}
	return nil
}
