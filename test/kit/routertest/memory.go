package routertest

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// inMemory is a client transport that calls the server directly.
type inMemory struct{ serve http.HandlerFunc }

// RoundTrip runs the handler in its own goroutine and returns when the handler has sent the response header.
func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &pipedResponse{header: http.Header{}, body: writer, begun: make(chan struct{})}
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
		_ = reader.CloseWithError(errors.New("the client has disconnected")) // never fails
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: reader, Request: r, ContentLength: -1,
	}, nil
}

// pipedResponse is the server's side of a response.
type pipedResponse struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	code   int
	begun  chan struct{} // closed when code and header are set
}

// Header returns the response header.
func (p *pipedResponse) Header() http.Header { return p.header }

// WriteHeader sends the response header.
func (p *pipedResponse) WriteHeader(code int) {
	p.once.Do(func() {
		p.code = code
		close(p.begun)
	})
}

// Write sends a part of the body when the client reads it.
func (p *pipedResponse) Write(part []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.body.Write(part)
}

// Flush does nothing: nothing is buffered.
func (*pipedResponse) Flush() {}
