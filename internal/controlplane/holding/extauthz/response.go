package extauthz

import (
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// ColdStartHeader is set in the response to a request that has waited. The KEDA HTTP add-on defines the name.
	ColdStartHeader = "X-KEDA-HTTP-Cold-Start"
	// ReasonHeader contains the reason why a request was not released.
	ReasonHeader = translate.ReasonHeader
	// retryAfter is the value of Retry-After in seconds.
	retryAfter = "5"
	plainText  = "text/plain; charset=utf-8"
)

// Values of ReasonHeader.
const (
	// ReasonUnknown means that no workload has the cluster, for example because it was just deleted.
	ReasonUnknown = "unknown"
	// ReasonPaused means that autoscaling is paused at zero replicas.
	ReasonPaused = "paused"
	// ReasonLimit means that a limit of queued requests is reached.
	ReasonLimit = "limit"
	// ReasonDeadline means that no endpoint became ready in time.
	ReasonDeadline = "deadline"
	// ReasonFailover means that the failover Service responds, because no endpoint became ready in time.
	ReasonFailover = "failover"
	// ReasonProbe means a response to a health check of a workload with zero replicas.
	ReasonProbe = translate.ReasonProbe
	// ReasonPage means that the browser gets the waiting page.
	ReasonPage = "waiting-page"
	// ReasonPlaceholder means that the client gets the placeholder of the object.
	ReasonPlaceholder = translate.ReasonPlaceholder
)

// response returns the response for an outcome. hasWaited is true if the request was queued.
func response(result outcome, hasWaited bool) *authv3.CheckResponse {
	switch {
	case result.isReleased:
		return released(hasWaited)
	case result.decision == holding.Probe:
		return localReply(typev3.StatusCode_OK, "scaled to zero; health checks do not wake it\n",
			header(ReasonHeader, ReasonProbe), header("Content-Type", plainText), header("Cache-Control", "no-store"))
	case result.decision == holding.Page:
		return waitingPage(result.page)
	case result.decision == holding.Placeholder:
		return placeholder(*result.placeholder, result.accept)
	case result.decision == holding.Paused:
		return unavailable(ReasonPaused,
			"scaled to zero, and autoscaling is paused\n")
	case result.decision == holding.Full:
		return unavailable(ReasonLimit,
			"scaled to zero, and the limit of queued requests is reached\n")
	default:
		return unavailable(ReasonUnknown, "no workload for this request\n")
	}
}

// expired returns the response at the deadline. If hasFailover is true, the failover Service answers the request.
func expired(hasFailover bool) (*authv3.CheckResponse, error) {
	if !hasFailover {
		return unavailable(ReasonDeadline, "no replica became ready in time\n"), nil
	}
	mark, err := structpb.NewStruct(map[string]any{translate.FailoverKey: true})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "build dynamic metadata: %v", err)
	}
	response := released(true)
	ok := response.GetOkResponse()
	ok.HeadersToRemove = []string{translate.FailoverKey}
	ok.ResponseHeadersToAdd = append(ok.ResponseHeadersToAdd, header(ReasonHeader, ReasonFailover))
	response.DynamicMetadata = mark
	return response, nil
}

// released returns the response that lets the proxy forward the request.
func released(hasWaited bool) *authv3.CheckResponse {
	ok := new(authv3.OkHttpResponse)
	if hasWaited {
		ok.ResponseHeadersToAdd = []*corev3.HeaderValueOption{header(ColdStartHeader, "true")}
	}
	return &authv3.CheckResponse{
		Status:       &statusv3.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok},
	}
}

// unavailable returns a response by which the proxy answers 503 with a text. For gRPC, Envoy converts it to status
// Unavailable.
func unavailable(reason, body string) *authv3.CheckResponse {
	return localReply(typev3.StatusCode_ServiceUnavailable, body, header(ReasonHeader, reason),
		header("Content-Type", plainText), header("Retry-After", retryAfter))
}

// waitingPage returns a response by which the proxy answers with the page.
func waitingPage(page page.Page) *authv3.CheckResponse {
	return localReply(typev3.StatusCode(page.Status), page.Body,
		header(ReasonHeader, ReasonPage), header("Content-Type", "text/html; charset=utf-8"),
		header("Retry-After", strconv.Itoa(int(page.RetryAfter.Seconds()))), header("Cache-Control", "no-store"))
}

// placeholder returns a response by which the proxy answers with the placeholder of an object. accept is the header
// Accept of the request.
func placeholder(response model.StaticResponse, accept string) *authv3.CheckResponse {
	body := response.BodyFor(accept)
	var headers []*corev3.HeaderValueOption
	for _, added := range translate.StaticHeaders(response, body, ReasonPlaceholder) {
		headers = append(headers, header(added.Name, added.Value))
	}
	if response.Location != "" {
		headers = append(headers, header("location", response.Location))
	}
	code := typev3.StatusCode(min(response.Status, model.MaxStaticStatus))
	return localReply(code, body.Text, headers...)
}

// localReply returns a response by which the proxy answers instead of forwarding the request.
func localReply(code typev3.StatusCode, body string, headers ...*corev3.HeaderValueOption) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status: &statusv3.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: code}, Headers: headers, Body: body,
		}},
	}
}

// header returns an option that sets one header.
func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
