package routertest

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// inMemory is a client's transport that calls the server.
type inMemory struct{ serve http.HandlerFunc }

// RoundTrip lets the server answer r, in a goroutine of its own, and returns as soon as it has begun to.
func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &pipedAnswer{header: http.Header{}, body: writer, begun: make(chan struct{})}
	cut := make(chan struct{})
	go func() {
		defer writer.Close()
		defer func() {
			if cause := recover(); cause != nil {
				_ = writer.CloseWithError(io.ErrUnexpectedEOF) // never fails
				close(cut)
			}
		}()
		m.serve(w, r)
		w.WriteHeader(http.StatusOK)
	}()
	select {
	case <-w.begun:
	case <-cut:
		return nil, io.ErrUnexpectedEOF
	case <-r.Context().Done():
		_ = reader.CloseWithError(errors.New("the client has gone")) // never fails
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: reader, Request: r, ContentLength: -1,
	}, nil
}

// pipedAnswer is the server's side of an answer.
type pipedAnswer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	code   int
	begun  chan struct{} // closed when code and header are set
}

// Header returns the answer's header.
func (p *pipedAnswer) Header() http.Header { return p.header }

// WriteHeader begins the answer.
func (p *pipedAnswer) WriteHeader(code int) {
	p.once.Do(func() {
		p.code = code
		close(p.begun)
	})
}

// Write passes a part of the body on, as soon as the client reads it.
func (p *pipedAnswer) Write(part []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.body.Write(part)
}

// Flush has nothing to do: nothing is held back.
func (*pipedAnswer) Flush() {}
