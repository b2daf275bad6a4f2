package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// method is the method of Kedify's sample grpc-responder. Its messages have one string field with number 1, as
// StringValue has.
const method = "/responder.HelloService/SayHello"

// messages is the number of messages of a stream.
const messages = 3

// caller makes gRPC calls to a host over one connection.
type caller struct{ connection *grpc.ClientConn }

// newCaller returns a caller of a host behind an address.
func newCaller(t *testing.T, address, host string) *caller {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithAuthority(host), grpc.WithDisableRetry(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
	})
	return &caller{connection}
}

// call makes a unary call.
func (c *caller) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	var answer wrapperspb.StringValue
	if err := c.connection.Invoke(ctx, method, wrapperspb.String("you"), &answer); err != nil {
		return err
	}
	return checkAnswer(&answer)
}

// checkAnswer checks a message of the application.
func checkAnswer(answer *wrapperspb.StringValue) error {
	if color := answer.GetValue(); color != "blue" && color != "yellow" {
		return fmt.Errorf("answer %.100q", color)
	}
	return nil
}

// stream makes a call whose first message comes after lateMessage, and further ones a second after the previous one. As
// with servers of grpc-go, nothing comes before the first message.
func (c *caller) stream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "first", lateMessage.String(), "every", time.Second.String(),
		"messages", strconv.Itoa(messages))
	stream, err := c.connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.String("you")), stream.CloseSend()); err != nil {
		return err
	}
	for received := 0; ; received++ {
		var answer wrapperspb.StringValue
		switch err := stream.RecvMsg(&answer); {
		case errors.Is(err, io.EOF) && received == messages:
			return nil
		case err != nil:
			return fmt.Errorf("after %d messages: %w", received, err)
		}
		if err := checkAnswer(&answer); err != nil {
			return err
		}
	}
}
