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

// Response is what a request came to.
type Response struct {
	// Status is that of the answer, and Reason its X-Kedify-Reason.
	Status int
	Reason string
	// IsColdStart says that it tells of a cold start, and IsApp that it is an app's.
	IsColdStart, IsFromApp bool
	// At is when its first byte came.
	At time.Time
	// Err says why there is none.
	Err error
}

// Send sends a request for an app over a connection of its own. The answer comes later; a request whose context ends before is canceled.
func Send(ctx context.Context, proxy string, app int) <-chan Response {
	done := make(chan Response, 1)
	go func() { done <- get(ctx, proxy, AppHost(app)) }()
	return done
}

// get makes a request.
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
