package zerostage

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Answer is what a request came to.
type Answer struct {
	// Status is that of the answer, and Reason its X-Kedify-Reason.
	Status int
	Reason string
	// IsCold says that it tells of a cold start, and IsApp that it is an app's.
	IsCold, IsApp bool
	// At is when its first byte came.
	At time.Time
	// Err says why there is none.
	Err error
}

// Begin sends a request for an app over a connection of its own. The answer comes later; a request whose context ends before is canceled.
func Begin(ctx context.Context, proxy string, app int) <-chan Answer {
	done := make(chan Answer, 1)
	go func() { done <- ask(ctx, proxy, Host(app)) }()
	return done
}

// ask makes a request.
func ask(ctx context.Context, proxy, host string) Answer {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", proxy)
	if err != nil {
		return Answer{Err: err}
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if _, err := fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return Answer{Err: err}
	}
	from := bufio.NewReader(connection)
	if _, err := from.Peek(1); err != nil {
		return Answer{Err: err}
	}
	at := time.Now()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		return Answer{Err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return Answer{
		Status: response.StatusCode, Reason: response.Header.Get("X-Kedify-Reason"), At: at, Err: err,
		IsCold: response.Header.Get("X-KEDA-HTTP-Cold-Start") == "true", IsApp: string(body) == Body,
	}
}
