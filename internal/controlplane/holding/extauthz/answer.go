package extauthz

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// ColdStartHeader is in the answer to a request that has waited. The name is that of the KEDA HTTP add-on.
	ColdStartHeader = "X-KEDA-HTTP-Cold-Start"
	// ReasonHeader says why a request was not held, or no longer.
	ReasonHeader = translate.ReasonHeader
	// retryAfter is how many seconds a client should leave before it tries again.
	retryAfter = "5"
	plainText  = "text/plain; charset=utf-8"
)

// Reasons of ReasonHeader.
const (
	// ReasonUnknown says that nothing is known of the app, such as that it was deleted just now.
	ReasonUnknown = "unknown"
	// ReasonPaused says that the autoscaling of the app is paused, at zero replicas.
	ReasonPaused = "paused"
	// ReasonLimit says that as many requests wait as may.
	ReasonLimit = "limit"
	// ReasonDeadline says that nothing became ready in time.
	ReasonDeadline = "deadline"
	// ReasonFailover says that another Service has answered, because nothing became ready in time.
	ReasonFailover = "failover"
	// ReasonProbe says that a health check was answered for an app with zero replicas.
	ReasonProbe = translate.ReasonProbe
	// ReasonPage says that a page waits in place of the request.
	ReasonPage = "waiting-page"
)

// callOf reads a call. The error is a status.
func callOf(ctx context.Context, request *authv3.CheckRequest) (holding.Call, error) {
	from, known := peer.FromContext(ctx)
	if !known || from.Addr == nil {
		return holding.Call{}, status.Error(codes.Internal, "the call has no peer")
	}
	address, err := server.PeerAddress(from.Addr.String())
	if err != nil {
		return holding.Call{}, status.Errorf(codes.Internal, "peer %s has no address: %v", from.Addr, err)
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	clusters := sent.Get(translate.ClusterKey)
	if len(clusters) != 1 {
		return holding.Call{}, status.Errorf(codes.InvalidArgument,
			"the call names %d clusters in %s, and has to name one", len(clusters), translate.ClusterKey)
	}
	asked := request.GetAttributes().GetRequest().GetHttp()
	path, _, _ := strings.Cut(asked.GetPath(), "?")
	return holding.Call{
		Proxy: address, Cluster: clusters[0],
		IsCaught: len(sent.Get(translate.NetKey)) > 0, Path: path,
		IsPageView: asked.GetMethod() == http.MethodGet && strings.Contains(asked.GetHeaders()["accept"], "text/html"),
	}, nil
}

// answer is what the proxy is told. hasWaited says that the request was held.
func answer(is outcome, hasWaited bool) *authv3.CheckResponse {
	switch {
	case is.goesOn:
		return goesOn(hasWaited)
	case is.verdict == holding.Probe:
		return denied(typev3.StatusCode_OK, ReasonProbe, "the app has no replica; this starts none\n")
	case is.verdict == holding.Page:
		return waitingPage(is.page)
	case is.verdict == holding.Paused:
		return denied(typev3.StatusCode_ServiceUnavailable, ReasonPaused,
			"the app has no replica, and its autoscaling is paused\n")
	case is.verdict == holding.Full:
		return denied(typev3.StatusCode_ServiceUnavailable, ReasonLimit,
			"the app has no replica, and too many requests wait for one\n")
	default:
		return denied(typev3.StatusCode_ServiceUnavailable, ReasonUnknown, "the app is not known here\n")
	}
}

// expired is what the proxy is told at the deadline. failsOver says that another Service is to answer.
func expired(failsOver bool) (*authv3.CheckResponse, error) {
	if !failsOver {
		return denied(typev3.StatusCode_ServiceUnavailable, ReasonDeadline, "the app had no replica in time\n"), nil
	}
	mark, err := structpb.NewStruct(map[string]any{translate.FailoverKey: true})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "mark a request: %v", err)
	}
	response := goesOn(true)
	ok := response.GetOkResponse()
	ok.HeadersToRemove = []string{translate.FailoverKey}
	ok.ResponseHeadersToAdd = append(ok.ResponseHeadersToAdd, header(ReasonHeader, ReasonFailover))
	response.DynamicMetadata = mark
	return response, nil
}

// goesOn has the request go on.
func goesOn(hasWaited bool) *authv3.CheckResponse {
	ok := new(authv3.OkHttpResponse)
	if hasWaited {
		ok.ResponseHeadersToAdd = []*corev3.HeaderValueOption{header(ColdStartHeader, "true")}
	}
	return &authv3.CheckResponse{
		Status:       &statusv3.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok},
	}
}

// denied has the proxy answer by itself with a text. For gRPC it turns 503 into the status Unavailable.
func denied(code typev3.StatusCode, reason, body string) *authv3.CheckResponse {
	headers := []*corev3.HeaderValueOption{header(ReasonHeader, reason), header("Content-Type", plainText)}
	if code == typev3.StatusCode_ServiceUnavailable {
		headers = append(headers, header("Retry-After", retryAfter))
	}
	return answeredWith(code, body, headers...)
}

// waitingPage has the proxy show a page.
func waitingPage(page page.Page) *authv3.CheckResponse {
	return answeredWith(typev3.StatusCode(page.Status), page.Body,
		header(ReasonHeader, ReasonPage), header("Content-Type", "text/html; charset=utf-8"),
		header("Retry-After", strconv.Itoa(int(page.RetryAfter.Seconds()))), header("Cache-Control", "no-store"))
}

// answeredWith has the proxy answer by itself.
func answeredWith(code typev3.StatusCode, body string, headers ...*corev3.HeaderValueOption) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status: &statusv3.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: code}, Headers: headers, Body: body,
		}},
	}
}

// header sets one header.
func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
