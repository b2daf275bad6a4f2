package traffic

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Response is what a request got.
type Response struct {
	// Status is the HTTP status.
	Status int
	// Header has the fields of the answer.
	Header http.Header
	// Body is the whole of it.
	Body []byte
}

// Get makes one GET request on a connection of its own: net/http repeats what fails on a kept connection only. host is
// whom the request is for, empty for the URL's; header may be nil.
func Get(ctx context.Context, url, host string, header http.Header) (Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return Response{}, err
	}
	request.Host = host
	maps.Copy(request.Header, header)
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return Response{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return Response{}, fmt.Errorf("read the answer: %w", err)
	}
	return Response{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}
