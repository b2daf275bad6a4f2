package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// errCut is the error of a request that a load balancer cuts.
var errCut = errors.New("connection reset by peer")

// respond is a transport without a network.
type respond func(*http.Request) (*http.Response, error)

func (r respond) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// TestPausesBetweenLists has an API server that answers each list, behind a load balancer that ends or cuts each watch
// for ten minutes. The pauses between lists grow.
func TestPausesBetweenLists(t *testing.T) {
	t.Parallel()
	for name, isCut := range map[string]bool{"watches end": false, "watches are cut": true} {
		synctest.Test(t, func(t *testing.T) {
			var lists []time.Time
			client := NewClient(func() (*rest.Config, error) {
				return &rest.Config{Host: "http://api.test", QPS: -1, Transport: respond(func(request *http.Request) (*http.Response, error) {
					body := io.NopCloser(strings.NewReader(`{"metadata": {"resourceVersion": "1"}, "items": []}`))
					switch isWatch := request.URL.Query().Get("watch") != ""; {
					case !isWatch:
						lists = append(lists, time.Now())
					case isCut:
						return nil, errCut
					default:
						body = io.NopCloser(strings.NewReader(""))
					}
					return &http.Response{StatusCode: http.StatusOK, Body: body, Request: request}, nil
				})}, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			NewCache[named](nil).Follow(ctx, Source[named]{
				Client: client, Path: func(context.Context) ([]string, error) { return []string{"objects"}, nil },
				Decode: func(raw []byte) (state named, err error) { return state, json.Unmarshal(raw, new(struct{})) },
			}, slog.New(slog.DiscardHandler))
			if count := len(lists); count < 10 || count > 50 {
				t.Errorf("%s: %d lists in ten minutes, want at least 10 and at most 50", name, count)
			}
		})
	}
}
