package coldstart

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Response is the result of a request.
type Response struct {
	// Status is the HTTP status.
	Status int
	// Reason is the header X-Kedify-Reason.
	Reason string
	// IsColdStart is true if the response has the cold start header, and IsFromApp if it has the body of an app.
	IsColdStart, IsFromApp bool
	// At is when the first byte arrived.
	At time.Time
	// Err is set if there is no response.
	Err error
}

// Send sends a request for an app on a new connection. The channel receives the response. The request is canceled when
// its context ends.
func Send(ctx context.Context, proxy string, app int) <-chan Response {
	done := make(chan Response, 1)
	go func() { done <- get(ctx, proxy, AppHost(app)) }()
	return done
}

// get sends a request and reads the response.
func get(ctx context.Context, proxy, host string) Response {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", proxy)
	if err != nil {
		return Response{Err: err}
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if _, err := fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return Response{Err: err}
	}
	reader := bufio.NewReader(connection)
	if _, err := reader.Peek(1); err != nil {
		return Response{Err: err}
	}
	at := time.Now()
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return Response{Err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return Response{
		Status: response.StatusCode, Reason: response.Header.Get("X-Kedify-Reason"), At: at, Err: err,
		IsColdStart: response.Header.Get("X-KEDA-HTTP-Cold-Start") == "true", IsFromApp: string(body) == AppBody,
	}
}
