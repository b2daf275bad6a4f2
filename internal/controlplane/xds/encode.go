package xds

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// encode returns a response whose resources are encoded one after the other while it is sent, because all resources of
// a large fleet take tens of megabytes. head is the response without resources. responseOf returns a response with
// nothing but one resource. Messages that are encoded one after the other are merged: their repeated fields are
// concatenated (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
func encode(
	head proto.Message, resources []*session.Resource,
	responseOf func(resource *session.Resource, body *anypb.Any) proto.Message,
) grpcserver.Parts {
	return func(yield func([]byte) bool) {
		var body, text []byte
		marshal := func(message proto.Message) []byte {
			text, _ = proto.MarshalOptions{}.MarshalAppend(text[:0], message) // Only invalid UTF-8 is an error. Names are valid.
			return text
		}
		if !yield(marshal(head)) {
			return
		}
		for _, resource := range resources {
			message := resource.Any(body[:0])
			body = message.GetValue()
			if !yield(marshal(responseOf(resource, message))) {
				return
			}
		}
	}
}
