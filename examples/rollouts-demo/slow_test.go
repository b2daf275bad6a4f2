package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

func TestPace(t *testing.T) {
	tests := map[string]struct {
		values map[string]string
		want   pace
		bad    bool
	}{
		"nothing": {want: pace{messages: 1}},
		"all": {
			values: map[string]string{"first": "45s", "every": "1s", "messages": "600"},
			want:   pace{45 * time.Second, time.Second, 600},
		},
		"no messages":      {values: map[string]string{"messages": "0"}},
		"no unit":          {values: map[string]string{"first": "45"}, bad: true},
		"negative":         {values: map[string]string{"every": "-1s"}, bad: true},
		"half a message":   {values: map[string]string{"messages": "0.5"}, bad: true},
		"a negative count": {values: map[string]string{"messages": "-1"}, bad: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := paceOf(func(key string) string { return tt.values[key] })
			if tt.bad != (err != nil) || !tt.bad && got != tt.want {
				t.Errorf("pace %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// TestSlowAnswer: nothing is sent before the first message, and the others follow at their pace.
func TestSlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(newApp(settings{color: "blue", path: "/color"}))
		transport := &http.Transport{DialContext: memhttp.Serve(t, server)}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://app/slow?first=45s&every=2s&messages=3", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		headers := time.Since(began)
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != "1 blue\n2 blue\n3 blue\n" {
			t.Errorf("body %q, %v", body, err)
		}
		if end := time.Since(began); headers != 45*time.Second || end != 49*time.Second {
			t.Errorf("headers after %s, the end after %s", headers, end)
		}
	})
}

func TestSlowAnswerWithAnInvalidPace(t *testing.T) {
	answer := httptest.NewRecorder()
	newApp(settings{path: "/color"}).ServeHTTP(answer,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/slow?first=soon", http.NoBody))
	if answer.Code != http.StatusBadRequest {
		t.Errorf("status %d", answer.Code)
	}
}

// TestWorkersLimitTheRate: two workers answer five requests of a second each in three seconds.
func TestWorkersLimitTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := newApp(settings{color: "blue", path: "/color", latency: time.Second, workers: 2})
		began := time.Now()
		ends := make(chan time.Duration, 5)
		for range cap(ends) {
			go func() {
				app.ServeHTTP(httptest.NewRecorder(),
					httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/color", http.NoBody))
				ends <- time.Since(began)
			}()
		}
		for i, want := range []float64{1, 1, 2, 2, 3} {
			if got := <-ends; got.Seconds() != want {
				t.Errorf("answer %d after %s, want %v s", i, got, want)
			}
		}
	})
}

// TestEcho: a WebSocket answers every message.
func TestEcho(t *testing.T) {
	server := httptest.NewServer(newApp(settings{color: "blue", path: "/color"}))
	defer server.Close()
	config, err := websocket.NewConfig("ws://"+server.Listener.Addr().String()+"/echo", "http://app")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := config.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for _, message := range []string{"one", "two"} {
		var got string
		err := errors.Join(websocket.Message.Send(connection, message), websocket.Message.Receive(connection, &got))
		if err != nil || got != "blue "+message {
			t.Errorf("answer %q, %v", got, err)
		}
	}
}

// TestCalls: the service of the sample grpc-responder is answered over HTTP/2 with prior knowledge, as a unary call and
// as a stream of the server.
func TestCalls(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(newApp(settings{color: "blue", path: "/color"}))
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	connection, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	const method = "/responder.HelloService/SayHello"
	hello := wrapperspb.String("you")
	var answer wrapperspb.StringValue
	if err := connection.Invoke(t.Context(), method, hello, &answer); err != nil || answer.GetValue() != "blue" {
		t.Errorf("answer %q, %v", answer.GetValue(), err)
	}
	invalid := metadata.AppendToOutgoingContext(t.Context(), "first", "soon")
	if err := connection.Invoke(invalid, method, hello, &answer); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call with an invalid pace: %v", err)
	}
	paced := metadata.AppendToOutgoingContext(t.Context(), "first", "1ms", "every", "1ms", "messages", "3")
	if got, err := receiveAll(paced, connection, method); err != nil || got != 3 {
		t.Errorf("%d messages, %v", got, err)
	}
}

// receiveAll makes a call with a stream of the server and returns the number of its messages.
func receiveAll(ctx context.Context, connection *grpc.ClientConn, method string) (messages int, err error) {
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.String("you")), stream.CloseSend()); err != nil {
		return 0, err
	}
	for {
		var answer wrapperspb.StringValue
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			return messages, nil
		}
		if err != nil {
			return messages, err
		}
		messages++
	}
}
