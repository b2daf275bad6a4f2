package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

// pace is the pace of an answer. The query of a request for slowPath contains it, or the metadata of a gRPC call.
type pace struct {
	// first is the time until the first byte of the answer, every the time between two messages.
	first, every time.Duration
	// messages is the number of messages: lines, or messages of a gRPC call.
	messages int
}

// paceOf parses the values first, every and messages. Without them, one message follows at once.
func paceOf(get func(key string) string) (pace, error) {
	p := pace{messages: 1}
	for key, into := range map[string]*time.Duration{"first": &p.first, "every": &p.every} {
		text := get(key)
		if text == "" {
			continue
		}
		duration, err := time.ParseDuration(text)
		if err != nil || duration < 0 {
			return pace{}, fmt.Errorf("%s %q: use a duration such as 45s", key, text)
		}
		*into = duration
	}
	if text := get("messages"); text != "" {
		count, err := strconv.Atoi(text)
		if err != nil || count < 0 {
			return pace{}, fmt.Errorf("messages %q: use a number", text)
		}
		p.messages = count
	}
	return p, nil
}

// send calls write with the number of each message, counted from 1, and flushes it. The first call is after p.first.
// It stops early if ctx ends, because the client has disconnected.
func (p pace) send(ctx context.Context, w http.ResponseWriter, write func(number int) error) {
	if !wait(ctx, p.first) {
		return
	}
	controller := http.NewResponseController(w)
	for number := range p.messages {
		if number > 0 && !wait(ctx, p.every) {
			return
		}
		if write(number+1) != nil || controller.Flush() != nil {
			return
		}
	}
}

// wait waits for a duration. It returns false if ctx ends first.
func wait(ctx context.Context, duration time.Duration) bool {
	if duration <= 0 {
		return true
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// answerSlowly answers with lines of a number and the colour, at the pace of the query. The length of the body is not
// announced.
func (a *app) answerSlowly(w http.ResponseWriter, r *http.Request) {
	p, err := paceOf(r.URL.Query().Get)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p.send(r.Context(), w, func(number int) error {
		_, err := fmt.Fprintln(w, number, a.color)
		return err
	})
}

// echo sends each message of a WebSocket back, after the colour and a space.
func (a *app) echo(connection *websocket.Conn) {
	for {
		var message string
		if websocket.Message.Receive(connection, &message) != nil ||
			websocket.Message.Send(connection, a.color+" "+message) != nil {
			return // the client has closed it
		}
	}
}

// isCall reports whether a request is a gRPC call.
func isCall(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

const (
	// frameHeader is the length of the header of a gRPC message: a flag for compression, and four bytes of length
	// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
	frameHeader = 5
	// stringField is the tag of a field of type string with number 1.
	stringField = 0x0a
	// longestCall is the maximum number of bytes of a call that are read.
	longestCall = 1 << 20
)

// answerCall answers any gRPC call, unary or with a stream of the server, at the pace of its metadata. Each message has
// one field, of type string with number 1, which contains the colour: so the service of Kedify's sample grpc-responder
// is answered. Nothing is sent before the first message, not even the headers.
func (a *app) answerCall(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	head := w.Header()
	head.Set("Content-Type", "application/grpc")
	p, err := paceOf(r.Header.Get)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(r.Body, longestCall))
	}
	if err != nil {
		head.Set("Grpc-Status", "3") // INVALID_ARGUMENT, in a response without messages
		head.Set("Grpc-Message", err.Error())
		return
	}
	message := frame(a.color)
	p.send(r.Context(), w, func(int) error {
		_, err := w.Write(message)
		return err
	})
	head.Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// frame returns a gRPC message with one field, of type string with number 1.
func frame(text string) []byte {
	field := append(binary.AppendUvarint([]byte{stringField}, uint64(len(text))), text...)
	header := make([]byte, frameHeader, frameHeader+len(field))
	binary.BigEndian.PutUint32(header[1:], uint32(len(field))) //nolint:gosec // the text is short
	return append(header, field...)
}
