package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Response is an HTTP response.
type Response struct {
	// Status is the HTTP status.
	Status int
	// Header are the header fields.
	Header http.Header
	// Body is the complete body.
	Body []byte
}

// Get sends one GET request on a new connection: net/http only retries failed requests on a reused connection. An empty
// host is the URL's host; header may be nil.
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
		return Response{}, fmt.Errorf("read the response: %w", err)
	}
	return Response{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// errNoMetric is returned for a page of metrics that lacks one.
var errNoMetric = errors.New("no such metric")

// Metric returns the value of a metric on a page in the text format of Prometheus, by its name with its labels.
func Metric(page []byte, name string) (float64, error) {
	for line := range strings.Lines(string(page)) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%w: %s", errNoMetric, name)
}
