package extauthz_test

import (
	"testing"
	"testing/synctest"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// withPlaceholder returns a workload with a placeholder in two content types.
func withPlaceholder() *holding.Workload {
	made := workload()
	made.Placeholder = &model.StaticResponse{
		Status: 202, Headers: []model.StaticHeader{{Name: "retry-after", Value: "7"}},
		Bodies: []model.StaticBody{
			{ContentType: "application/json", Text: "{}"}, {ContentType: "text/html", Text: "<h1>100 %</h1>"},
		},
	}
	return made
}

// TestPlaceholder checks the response to every client, that all of them count as one request for a while, and that they
// are released once the workload serves.
func TestPlaceholder(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: withPlaceholder()})
		waiting := func() int {
			synctest.Wait()
			counts, _ := s.Counts()
			return counts[shop].Waiting
		}
		_, urgent := s.Counts()
		for accept, want := range map[string]string{"": "{}", "text/html": "<h1>100 %</h1>", "text/html;q=0": "{}"} {
			request := pageView()
			request.Attributes.Request.Http.Method = "POST"
			request.Attributes.Request.Http.Headers["accept"] = accept
			response, err := check(callContext(t.Context()), s.Server, request)
			denied := response.GetDeniedResponse()
			if err != nil || denied.GetBody() != want || denied.GetStatus().GetCode() != 202 ||
				headerOf(response, "retry-after") != "7" || headerOf(response, "vary") != "Accept" ||
				headerOf(response, "x-kedify-reason") != extauthz.ReasonPlaceholder {
				t.Errorf("Accept: %s: %v, %v", accept, response, err)
			}
			time.Sleep(10 * time.Second)
		}
		select {
		case <-urgent:
		default:
			t.Error("the first request is not urgent")
		}
		if got := waiting(); got != 1 {
			t.Errorf("%d wait after three requests", got)
		}
		time.Sleep(5 * time.Second)
		if got := waiting(); got != 0 {
			t.Errorf("%d wait 15 s after the last request", got)
		}
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy)
		s.expect(s.view(), result{})
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although the workload serves", got)
		}
	})
}

// TestPlaceholderOfAPausedWorkload: the response is the same, and nothing is woken. A limit does not change it either.
func TestPlaceholderOfAPausedWorkload(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		paused := withPlaceholder()
		paused.IsPaused = true
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: paused})
		response, err := check(callContext(t.Context()), s.Server, new(authv3.CheckRequest))
		if err != nil || response.GetDeniedResponse().GetBody() != "{}" {
			t.Errorf("%v, %v", response, err)
		}
		if counts, _ := s.Counts(); counts[shop].Waiting != 0 {
			t.Errorf("%+v", counts)
		}
		redirect := workload()
		redirect.Placeholder = &model.StaticResponse{Status: 302, Location: "https://status.example.com/"}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: redirect})
		response, err = check(callContext(t.Context()), s.Server, new(authv3.CheckRequest))
		if err != nil || response.GetDeniedResponse().GetStatus().GetCode() != 302 ||
			headerOf(response, "location") != "https://status.example.com/" {
			t.Errorf("%v, %v", response, err)
		}
	})
}
