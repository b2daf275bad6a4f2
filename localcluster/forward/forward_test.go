package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// serve starts a forward on a free port and returns its address.
func serve(t *testing.T, dial Dial) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, dial) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String()
}

func TestForwardCopiesBothDirections(t *testing.T) {
	echo, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		connection, err := echo.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		all, _ := io.ReadAll(connection) // ends only when the client's half close arrives
		_, _ = connection.Write(append([]byte("heard "), all...))
	}()
	address := serve(t, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", echo.Addr().String())
	})

	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(connection)
	if err != nil || string(got) != "heard hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAConnectionWithoutTargetIsClosed(t *testing.T) {
	address := serve(t, func(context.Context) (net.Conn, error) { return nil, errors.New("connection refused") })
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if got, err := io.ReadAll(connection); len(got) != 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

// exhausted is a listener without a file descriptor for its first connection.
type exhausted struct {
	net.Listener

	refused bool
}

func (e *exhausted) Accept() (net.Conn, error) {
	if !e.refused {
		e.refused = true
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}

func TestTooManyConnectionsDoNotEndTheForward(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	dialled, served := make(chan struct{}), make(chan error, 1)
	go func() {
		served <- Serve(ctx, &exhausted{Listener: listener}, func(context.Context) (net.Conn, error) {
			close(dialled)
			return nil, errors.ErrUnsupported
		})
	}()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	select {
	case <-dialled:
	case err := <-served:
		t.Fatalf("Serve has ended: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
