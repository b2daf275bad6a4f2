package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// errNoRequests says that the metrics know of no request for a resource.
var errNoRequests = errors.New("the API server's metrics count no requests")

// RequestCounts are numbers of requests by verb, as the API server's metrics name them: GET, LIST and WATCH; POST, PUT, PATCH, APPLY and DELETE.
type RequestCounts map[string]int

// Reads are the GETs and LISTs; watches are none.
func (c RequestCounts) Reads() int { return c["GET"] + c["LIST"] }

// Writes are the requests that create or change an object. APPLY is a PATCH of server-side apply.
func (c RequestCounts) Writes() int { return c["POST"] + c["PUT"] + c["PATCH"] + c["APPLY"] }

// CountRequests counts the requests for a resource, by the name that it has in paths, such as httproutes, which the API server has answered since its start, whatever
// its answers were (the metric apiserver_request_total). It is an error that there is neither a read nor a write: then the name is wrong.
func CountRequests(ctx context.Context, client rest.Interface, resource string) (RequestCounts, error) {
	metrics, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	counts := RequestCounts{}
	for line := range strings.Lines(string(metrics)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(line, `resource="`+resource+`"`) {
			continue
		}
		var count float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &count); err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		_, rest, _ := strings.Cut(line, `verb="`)
		verb, _, _ := strings.Cut(rest, `"`)
		counts[verb] += int(count)
	}
	if counts.Reads()+counts.Writes() == 0 {
		return nil, fmt.Errorf("%w for %s", errNoRequests, resource)
	}
	return counts, nil
}
