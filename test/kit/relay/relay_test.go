package relay_test

import (
	"io"
	"net"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/relay"
)

// TestPartition sends a byte before, during and after a partition, to a server that sends it back.
func TestPartition(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	r := relay.Start(t, listener.Addr().String())
	connect := func() (conn net.Conn, received chan byte) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		received = make(chan byte, 10)
		go func() {
			buffer := make([]byte, 1)
			for {
				if _, err := io.ReadFull(conn, buffer); err != nil {
					return
				}
				received <- buffer[0]
			}
		}()
		return conn, received
	}
	send := func(conn net.Conn, value byte) {
		if _, err := conn.Write([]byte{value}); err != nil {
			t.Fatal(err)
		}
	}
	old, oldReceived := connect()
	send(old, 1)
	if got := await.Receive(t, "an echo", oldReceived); got != 1 {
		t.Errorf("received %d, want 1", got)
	}
	r.Partition()
	r.Partition()
	send(old, 2)
	fresh, freshReceived := connect()
	send(fresh, 3)
	_, other := connect() // no byte of the others arrives before this one could be accepted
	if len(oldReceived)+len(freshReceived)+len(other) > 0 {
		t.Error("a byte passed during the partition")
	}
	r.Heal()
	r.Heal()
	for want, received := range map[byte]chan byte{2: oldReceived, 3: freshReceived} {
		if got := await.Receive(t, "an echo", received); got != want {
			t.Errorf("received %d after the partition, want %d", got, want)
		}
	}
}
