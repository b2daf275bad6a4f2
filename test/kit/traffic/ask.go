package traffic

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Answer is what a request got.
type Answer struct {
	// Status is the HTTP status.
	Status int
	// Header has the fields of the answer.
	Header http.Header
	// Body is the whole of it.
	Body []byte
}

// Ask makes one GET request on a connection of its own: net/http repeats what fails on a kept connection only. host is
// whom the request is for, empty for the URL's; header may be nil.
func Ask(ctx context.Context, url, host string, header http.Header) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return Answer{}, err
	}
	request.Host = host
	maps.Copy(request.Header, header)
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}
