package interceptorroutes

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

// talkMethod is a method of the apps' gRPC service, which sends each message back.
const talkMethod = "/test.Talk/Talk"

// TestWebSocket opens a WebSocket while the app is at zero: it opens once the app is ready, and carries messages.
func TestWebSocket(t *testing.T) {
	const host = "websocket.test"
	app := shared.newApp(t, "websocket")
	shared.addRoute(t, "websocket", "rules: [{hosts: [websocket.test]}]")
	config, err := websocket.NewConfig("ws://"+host+"/echo", "http://"+host)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := new(net.Dialer).DialContext(await.Context(t), "tcp", coldstart.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	opened := make(chan *websocket.Conn, 1)
	go func() {
		client, err := websocket.NewClient(config, connection)
		if err != nil {
			t.Error("open the WebSocket: ", err)
		}
		opened <- client
	}()
	shared.awaitQueued(t, 1)
	shared.setReady(t, app, true)
	client := await.Receive(t, "the WebSocket", opened)
	if client == nil {
		return
	}
	for _, message := range []string{"one", "two"} {
		got := ""
		if err := errors.Join(websocket.Message.Send(client, message), websocket.Message.Receive(client, &got)); err != nil ||
			got != message {
			t.Errorf("sent %q, received %q, %v", message, got, err)
		}
	}
}

// TestGRPC makes calls to an app whose Service has appProtocol kubernetes.io/h2c. The first one waits for the app.
func TestGRPC(t *testing.T) {
	app := shared.newAppFor(t, "grpc", "kubernetes.io/h2c")
	shared.addRoute(t, "grpc", "rules: [{hosts: [grpc.test]}]")
	client, err := grpc.NewClient("passthrough:///"+coldstart.Proxy, grpc.WithAuthority("grpc.test"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx := await.Context(t)

	done, got := make(chan error, 1), new(wrapperspb.StringValue)
	go func() { done <- client.Invoke(ctx, talkMethod, wrapperspb.String("first"), got) }()
	shared.awaitQueued(t, 1)
	shared.setReady(t, app, true)
	if err := await.Receive(t, "the end of the call", done); err != nil || got.GetValue() != "first" {
		t.Errorf("a unary call: %q, %v", got.GetValue(), err)
	}
	talk(ctx, t, client)
}

// talk makes a call with streams of messages in both directions, and checks that it ends without an error.
func talk(ctx context.Context, t *testing.T, client *grpc.ClientConn) {
	t.Helper()
	stream, err := client.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, talkMethod)
	if err != nil {
		t.Fatal(err)
	}
	got := new(wrapperspb.StringValue)
	for _, message := range []string{"a", "b", "c"} {
		if err := errors.Join(stream.SendMsg(wrapperspb.String(message)), stream.RecvMsg(got)); err != nil ||
			got.GetValue() != message {
			t.Errorf("sent %q, received %q, %v", message, got.GetValue(), err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if err := stream.RecvMsg(got); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the stream: %v", err)
	}
}
